//! [`Screen`]: takes over the terminal, and restores it afterwards.

use std::{
    io::{self, IsTerminal, Read, Write},
    panic, thread,
};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The terminal on stdout. Dropping this restores it.
pub(super) struct Screen {
    before: Termios,
}

impl Screen {
    /// Takes over the terminal: switches to the alternate screen, hides the cursor, and makes key presses available at once.
    /// Installs a panic hook that restores the terminal before the message is printed.
    ///
    /// # Errors
    /// Stdout is not a terminal.
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdout())?;
        let hook = panic::take_hook();
        let saved = before.clone();
        panic::set_hook(Box::new(move |panicked| {
            restore(&saved);
            hook(panicked);
        }));
        let screen = Self { before };
        let mut raw = screen.before.clone();
        raw.make_raw();
        tcsetattr(io::stdout(), OptionalActions::Now, &raw)?;
        write!(io::stdout(), "\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    /// The number of columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
    }

    /// Replaces the screen's content with `lines`, which must fit.
    ///
    /// # Errors
    /// The terminal was closed.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        // Clearing each row after its text, not the screen before it, avoids flicker.
        write!(out, "\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

/// Restores the terminal. Ignores errors, since it may have been closed.
fn restore(before: &Termios) {
    let mut out = io::stdout().lock();
    let _ = write!(out, "\x1b[?25h\x1b[?1049l").and_then(|()| out.flush());
    let _ = tcsetattr(io::stdout(), OptionalActions::Now, before);
}

/// Starts a thread that reads key presses, and returns their bytes. The thread lives as long as the process, since a read
/// from a terminal cannot be aborted.
pub(super) fn keys() -> UnboundedReceiver<u8> {
    let (keys, pressed) = unbounded_channel();
    if io::stdin().is_terminal() {
        let read = move || {
            let mut bytes = [0; 64];
            while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
                for byte in bytes.iter().take(count) {
                    if keys.send(*byte).is_err() {
                        return;
                    }
                }
            }
        };
        // Without the thread, a signal can still end the command.
        let _ = thread::Builder::new().name("keys".to_owned()).spawn(read);
    }
    pressed
}
