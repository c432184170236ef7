try{let t=localStorage.getItem("toolwire.theme");(t==="light"||t==="dark")&&(document.documentElement.dataset.theme=t)}catch{}
