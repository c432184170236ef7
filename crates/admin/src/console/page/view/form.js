// A form for a JSON Schema. Numbers are sent exactly as typed, and empty optional fields are left out.

import { fill, fresh, h, name, select } from "../core/dom.js";
import { field, numberText } from "../core/schema.js";
import { pointer, read } from "../core/tokens.js";

class Form extends HTMLElement {
  // Creates the form for `schema`, labelled `label`.
  show(schema, label) {
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", label);
    this.errors = new Map();
    this.model = field(schema ?? {});
    this.body = h("div.stack");
    this.text = h("textarea.mono", { rows: 6, "aria-label": `${label} as JSON`, spellcheck: "false" });
    this.asJson = false;
    this.toggle = h("button.plain", { "aria-pressed": "false", onclick: () => this.#toggle() }, "Edit as JSON");
    this.root = this.model.kind === "group" ? this.#group(this.model, "") : this.#part(this.model, "", label);
    fill(this, this.body, h("div.row", this.toggle));
    fill(this.body, this.root.element);
    return this;
  }

  // Returns the input as JSON text. Throws the first error, and marks all of them.
  read() {
    this.clear();
    if (this.asJson) {
      read(this.text.value);
      return this.text.value;
    }
    const text = this.root.read();
    const [first] = this.querySelectorAll("[aria-invalid=true]");
    if (first) {
      first.focus();
      throw new Error("Some fields need another value");
    }
    return text ?? "{}";
  }

  // Shows an error from the server at its field. Returns whether the field exists.
  wrong(path, message) {
    const show = this.errors.get(path ?? "");
    show?.(message);
    return Boolean(show);
  }

  clear() {
    for (const show of this.errors.values()) show("");
  }

  #toggle() {
    if (!this.asJson) {
      let text = "{}";
      try {
        text = this.read();
      } catch {
        // Values that are not valid yet are left out.
      }
      this.text.value = pretty(text);
      fill(this.body, this.text);
    } else {
      try {
        this.root.write(JSON.parse(this.text.value));
      } catch (error) {
        this.text.setAttribute("aria-invalid", "true");
        this.text.title = error.message;
        return;
      }
      fill(this.body, this.root.element);
    }
    this.text.removeAttribute("aria-invalid");
    this.asJson = !this.asJson;
    this.toggle.setAttribute("aria-pressed", this.asJson);
  }

  #group(model, path) {
    const parts = model.fields.map((own) => ({ key: own.key, isRequired: own.isRequired, ...this.#part(own, `${path}/${pointer(own.key)}`, own.key) }));
    if (!parts.length) return { element: h("p.dim", "No arguments."), read: () => "{}", write() {} };
    return {
      element: h("div.stack", parts.map((part) => part.element)),
      read: () => `{${parts.map((part) => [part.key, part.read(part.isRequired)]).filter(([, text]) => text !== undefined).map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(",")}}`,
      write: (value) => parts.forEach((part) => part.write(value?.[part.key])),
    };
  }

  #part(model, path, label) {
    if (model.kind === "group" && model.fields?.length) {
      const group = this.#group(model, path);
      return { ...group, element: h("fieldset", h("legend", name(label)), group.element), read: (required) => { const text = group.read(); return text === "{}" && !required ? undefined : text; } };
    }
    if (model.kind === "list") return this.#list(model, path, label);
    if (model.kind === "variants") return this.#variants(model, path, label);
    const made = (CONTROLS[model.kind] ?? CONTROLS.json)(model);
    const { control } = made;
    control.id = fresh("field");
    const help = [model.help, limits(model)].filter(Boolean).join(" · ");
    const helpLine = help && h("p.help.small.dim", { id: `${control.id}-help` }, name(help));
    const wrong = h("p.wrong.small", { id: `${control.id}-wrong`, hidden: true });
    control.setAttribute("aria-describedby", [help && helpLine.id, wrong.id].filter(Boolean).join(" "));
    if (model.isRequired) control.setAttribute("aria-required", "true");
    const show = (message) => {
      wrong.hidden = !message;
      wrong.textContent = message;
      message ? control.setAttribute("aria-invalid", "true") : control.removeAttribute("aria-invalid");
    };
    this.errors.set(path, show);
    made.write(model.initial);
    return {
      element: h("div.field", h("label", { for: control.id }, h("span", name(label), model.isRequired && h("span", { "aria-hidden": "true" }, " *"))), h("div", control), helpLine, wrong),
      read: (required = model.isRequired) => {
        const { text, error } = made.read();
        if (error) show(error);
        else if (text === undefined && required) show("This is required");
        return text;
      },
      write: made.write,
    };
  }

  #list(model, path, label) {
    const items = h("div.stack");
    const parts = [];
    const put = (value) => {
      const part = this.#part(model.item, `${path}/${parts.length}`, `${label} ${parts.length + 1}`);
      if (value !== undefined) part.write(value);
      const row = h("div.row", h("div.grow", part.element), h("button.plain", { "aria-label": `Remove ${label} ${parts.length + 1}`, onclick: () => {
        parts.splice(parts.indexOf(part), 1);
        row.remove();
      } }, "×"));
      parts.push(part);
      items.append(row);
    };
    return {
      element: h("fieldset", h("legend", name(label)), model.help && h("p.small.dim", name(model.help)), items, h("div", h("button", { onclick: () => put() }, "Add"))),
      read: (required) => (parts.length || required ? `[${parts.map((part) => part.read(true) ?? "null").join(",")}]` : undefined),
      write: (value) => {
        parts.length = 0;
        items.replaceChildren();
        if (Array.isArray(value)) value.forEach(put);
      },
    };
  }

  #variants(model, path, label) {
    let part = null;
    const place = h("div");
    const choice = select(model.variants.map((own, index) => [index, own.title]), 0, { "aria-label": `${label}: form of the value`, onchange: () => put() });
    const put = () => {
      part = this.#part({ ...model.variants[choice.value].field, isRequired: model.isRequired }, path, label);
      fill(place, part.element);
    };
    put();
    return { element: h("fieldset", h("legend", name(label)), choice, place), read: (required) => part.read(required), write: (value) => part.write(value) };
  }
}
customElements.define("tw-form", Form);

const limits = ({ min, max, minLength, maxLength, format }) => {
  if (min != null || max != null) return `${min ?? "any"} to ${max ?? "any"}`;
  if (maxLength != null) return `${minLength ?? 0} to ${maxLength} characters`;
  return format;
};

const typed = (control, reading, empty = "") => ({
  control,
  read: () => (control.value.trim() === "" ? { text: undefined } : reading(control.value)),
  write: (value) => { control.value = value == null ? empty : typeof value === "object" ? JSON.stringify(value, null, 2) : String(value); },
});

const CONTROLS = {
  text: (model) => {
    const control = model.maxLength > 200 || !model.maxLength ? h("textarea", { rows: 1 }) : h("input", { type: "text" });
    return { ...typed(control, (value) => ({ text: JSON.stringify(value), error: model.maxLength && value.length > model.maxLength && `At most ${model.maxLength} characters` })) };
  },
  number: (model) => typed(h("input", { type: "text", inputmode: "decimal" }), (value) => {
    const text = numberText(value);
    const number = Number(text);
    if (text === null || model.isInteger && !Number.isInteger(number)) return { error: model.isInteger ? "A whole number" : "A number" };
    if (number < model.min || number > model.max) return { error: limits(model) };
    return { text };
  }),
  switch: () => {
    const control = select([["", "not set"], ["true", "yes"], ["false", "no"]], "");
    return typed(control, (value) => ({ text: value }));
  },
  choice: (model) => {
    const options = [["", "not set"], ...model.options.map((own, index) => [JSON.stringify(own), model.titles?.[index] ?? (typeof own === "string" ? own : JSON.stringify(own))])];
    const control = select(options, "");
    return { control, read: () => ({ text: control.value || undefined }), write: (value) => { control.value = value === undefined ? "" : JSON.stringify(value); } };
  },
  const: (model) => ({ control: h("input", { readOnly: true, value: JSON.stringify(model.value) }), read: () => ({ text: JSON.stringify(model.value) }), write() {} }),
  json: () => typed(h("textarea.mono", { rows: 3, spellcheck: "false", placeholder: "JSON" }), (value) => {
    try {
      read(value);
      return { text: value };
    } catch (error) {
      return { error: error.message };
    }
  }),
};

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export const form = (schema, label) => document.createElement("tw-form").show(schema, label);
