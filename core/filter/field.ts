import { quote } from "../faults.ts";
import { ANY_ELEMENT, MAX_PATH } from "../terms.ts";
import { type Scan, take, takeQuoted } from "./scan.ts";
import { nearest } from "./suggest.ts";
import { type Field, type Segment } from "./tree.ts";

const FIELDS: Readonly<Record<string, Field>> = {
  id: { kind: "string", name: "id" },
  source: { kind: "string", name: "source" },
  type: { kind: "string", name: "type" },
  subject: { kind: "string", name: "subject" },
  time: { kind: "time", name: "time" },
  receive_time: { kind: "time", name: "receive_time" },
  severity: { kind: "severity" },
  tags: { kind: "tags" },
  dataschema: { kind: "string", name: "dataschema" },
  datacontenttype: { kind: "string", name: "datacontenttype" },
  partition: { kind: "position", name: "partition" },
  offset: { kind: "position", name: "offset" },
};
const NAMES = [...Object.keys(FIELDS), "ext", "data"];

/** Reads the field at the place reached, a name and what belongs to it; undefined where there is none such, which is noted. */
export function takeField(scan: Scan): Field | undefined {
  const position = scan.at;
  const name = take(scan, NAME) ?? "";
  const path = takePath(scan);
  return path && fieldOf(scan, position, name, path);
}

/** As the parser's WORD, without points. */
const NAME = /(?:[^\s()"'=<>!:,[\]\\&|~.]|&(?!&)|\|(?!\|))+/y;

/** The segments up to where no further one begins; undefined where one is wrong. */
function takePath(scan: Scan): Segment[] | undefined {
  const path: Segment[] = [];
  let isSound = true;
  for (;;) {
    const position = scan.at;
    const sign = take(scan, /[.[]/y);
    if (sign === undefined) return isSound ? path : undefined;
    const segment = sign === "." ? takeMember(scan, position) : takeIndex(scan, position);
    if (segment === undefined) isSound = false;
    else path.push(segment);
  }
}

function takeMember(scan: Scan, position: number): string | undefined {
  if (/["']/.test(scan.text[scan.at] ?? "")) {
    const { runs } = takeQuoted(scan);
    if (runs.length === 1) return runs[0];
    scan.fault(position + 1, String.raw`In a name a star is written \*.`);
    return undefined;
  }
  const name = take(scan, NAME);
  if (name?.includes("*") === false) return name;
  if (name !== undefined)
    scan.fault(position, "No star stands for any name; [*] is any element of an array.");
  else
    scan.fault(position, "After this point a name is missing.", { expected: "a name, in quotes if need be" });
  return undefined;
}

function takeIndex(scan: Scan, position: number): Segment | undefined {
  const index = take(scan, /\s*(?:\d{1,9}|\*)\s*\]/y)
    ?.slice(0, -1)
    .trim();
  if (index !== undefined) return index === "*" ? ANY_ELEMENT : Number(index);
  const inside = take(scan, /(?:"[^"]*"|'[^']*'|[^\s()"'=<>!:,[\]&|]*)\]?/y) ?? "";
  const name = /^["']?([^"'\]]+)["']?\]$/.exec(inside)?.[1];
  scan.fault(position, "This bracket holds no index of an array.", {
    expected: "[0], another index of up to 9 digits, or [*] for any element",
    ...(name !== undefined &&
      !/^-?\d+$/.test(name) && { suggestion: /\s/.test(name) ? `."${name}"` : `.${name}` }),
  });
  return undefined;
}

function fieldOf(scan: Scan, position: number, name: string, path: readonly Segment[]): Field | undefined {
  if (scan.only?.includes(name) === false && NAMES.includes(name)) {
    const fields = scan.only.join(", ");
    scan.fault(position, `The field ${name} cannot be asked about here; there are ${fields}.`, {
      expected: fields,
    });
    return undefined;
  }
  if (name === "data") return dataField(scan, position, path);
  if (name === "ext") return extensionField(scan, position, path);
  const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined;
  if (field === undefined) {
    const near = nearest(name, scan.only ?? NAMES);
    const fields = scan.only?.join(", ") ?? `${NAMES.slice(0, -2).join(", ")}, ext.NAME, data.PATH`;
    scan.fault(
      position,
      `There is no field ${quote(name)}${near === undefined ? `; there are ${fields}` : ""}.`,
      { expected: fields, ...(near !== undefined && { suggestion: near }) },
    );
  } else if (path.length > 0) {
    scan.fault(position, `The field ${name} has nothing inside.`, { suggestion: name });
    return undefined;
  }
  return field;
}

function dataField(scan: Scan, position: number, path: readonly Segment[]): Field | undefined {
  if (path.length > 0 && path.length <= MAX_PATH) return { kind: "data", path };
  if (path.length === 0) {
    scan.fault(position, "A path is missing after data.", { expected: "a path, such as data.order.amount" });
  } else {
    const metadata = { limit: String(MAX_PATH), actual: String(path.length), unit: "segments" };
    scan.fault(position, `This path has ${path.length} segments; at most ${MAX_PATH} are taken.`, metadata);
  }
  return undefined;
}

function extensionField(scan: Scan, position: number, path: readonly Segment[]): Field | undefined {
  const [name] = path;
  if (path.length === 1 && typeof name === "string" && /^[a-z0-9]+$/.test(name))
    return { kind: "extension", name };
  const plain = typeof name === "string" ? name.toLowerCase().replaceAll(/[^a-z0-9]/g, "") : "";
  scan.fault(position, "This is the name of no extension: it has lower-case letters a–z and digits only.", {
    expected: "ext. and a name, such as ext.tenant",
    ...(path.length === 1 && plain !== "" && { suggestion: `ext.${plain.slice(0, 40)}` }),
  });
  return undefined;
}
