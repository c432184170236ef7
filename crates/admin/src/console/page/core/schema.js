// The form fields for a JSON Schema. A part that is not supported becomes one JSON field; the rest of the form stays.

const MAX_DEPTH = 3;

// {kind, title, help, isRequired, …}: text, number, switch, choice, list, group, variants, const or json.
export function field(schema, root = schema, depth = 0, seen = new Set()) {
  if (schema === true || schema == null || typeof schema !== "object") return { kind: "json" };
  if (typeof schema.$ref === "string") {
    if (seen.has(schema.$ref) || !schema.$ref.startsWith("#")) return { kind: "json", help: schema.description };
    return field({ ...resolve(root, schema.$ref), ...without(schema, "$ref") }, root, depth, new Set([...seen, schema.$ref]));
  }
  const shared = { help: schema.description, initial: schema.default ?? schema.examples?.[0] };
  const types = [schema.type].flat().filter((type) => type && type !== "null");
  const isNullable = [schema.type].flat().includes("null");
  if ("const" in schema) return { ...shared, kind: "const", value: schema.const };
  if (Array.isArray(schema.enum)) return { ...shared, kind: "choice", options: schema.enum, isNullable };
  const variants = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(variants)) {
    if (variants.length && variants.every((own) => own && "const" in own)) return { ...shared, kind: "choice", options: variants.map((own) => own.const), titles: variants.map((own) => own.title) };
    const real = variants.filter((own) => own?.type !== "null");
    if (real.length === 1) return { ...field(real[0], root, depth, seen), ...defined(shared), isNullable: true };
    if (depth >= MAX_DEPTH || schema.properties) return { ...shared, kind: "json" };
    return { ...shared, kind: "variants", variants: real.map((own, index) => ({ title: own?.title ?? own?.type ?? `Variant ${index + 1}`, field: field(own, root, depth + 1, seen) })) };
  }
  if (types.length > 1 || schema.allOf || schema.if || schema.patternProperties) return { ...shared, kind: "json" };
  switch (types[0] ?? (schema.properties ? "object" : undefined)) {
    case "string":
      return { ...shared, kind: "text", format: schema.format, minLength: schema.minLength, maxLength: schema.maxLength, pattern: schema.pattern };
    case "integer":
    case "number":
      return { ...shared, kind: "number", isInteger: types[0] === "integer", min: schema.minimum ?? schema.exclusiveMinimum, max: schema.maximum ?? schema.exclusiveMaximum };
    case "boolean":
      return { ...shared, kind: "switch" };
    case "array":
      if (depth >= MAX_DEPTH || Array.isArray(schema.items) || !schema.items) return { ...shared, kind: "json" };
      return { ...shared, kind: "list", item: field(schema.items, root, depth + 1, seen) };
    case "object":
      if (depth >= MAX_DEPTH || !schema.properties) return { ...shared, kind: depth ? "json" : "group", fields: [] };
      return {
        ...shared,
        kind: "group",
        fields: Object.entries(schema.properties).map(([key, own]) => ({ key, isRequired: schema.required?.includes(key) ?? false, ...field(own, root, depth + 1, seen) })),
      };
    default:
      return { ...shared, kind: "json" };
  }
}

function resolve(root, ref) {
  let node = root;
  for (const part of ref.split("/").slice(1)) node = node?.[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")];
  return node && typeof node === "object" ? node : {};
}

const without = (object, key) => Object.fromEntries(Object.entries(object).filter(([own]) => own !== key));
const defined = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

// A number as it was typed, as JSON text, so that 2.50 stays 2.50. `null` if it is not a number.
export const numberText = (text) => (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()) ? text.trim() : null);
