import { describe, expect, test } from "vitest";
import { attributesOf, buildEvent, decodedFrom } from "./attributes.ts";
import { type CloudEvent } from "./event.ts";
import { createFaults } from "./faults.ts";
import { type Fault } from "./reason.ts";

const REQUIRED = { specversion: "1.0", id: "1", source: "/s", type: "t" };

function faults(attributes: Readonly<Record<string, string>>): readonly Fault[] {
  const result = buildEvent({ attributes: Object.entries({ ...REQUIRED, ...attributes }), data: undefined });
  return result.ok ? [] : result.faults;
}

function event(attributes: Readonly<Record<string, string>> = {}): CloudEvent {
  const result = buildEvent({ attributes: Object.entries({ ...REQUIRED, ...attributes }), data: undefined });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

describe("CloudEvents, naming conventions", () => {
  test("names are lower-case ASCII letters and digits", () => {
    expect(faults({ abc0: "", a: "", "0": "", constructor: "", tostring: "" })).toEqual([]);
    for (const name of ["", "A", "`", "{", "/", ":", "a-b", "a_b", "a b", "ä", "a\u0000", "\ud800"]) {
      expect(faults({ [name]: "x" })).toMatchObject([
        { field: name.toWellFormed().replace("\u0000", "\ufffd"), reason: "INVALID_ATTRIBUTES" },
      ]);
    }
    expect(faults({ __PROTO__: "x" })[0]?.description).toBe(
      'the attribute name "__PROTO__" may only have lower-case letters a–z and digits.',
    );
  });

  test('the name "data" is reserved', () => {
    expect(faults({ data: "x" })).toMatchObject([{ field: "data", reason: "INVALID_ATTRIBUTES" }]);
  });

  test("an attribute appears at most once", () => {
    const result = buildEvent({
      attributes: [...Object.entries(REQUIRED), ["id", "1"], ["ext", "a"], ["ext", "a"], ["ext", "a"]],
      data: undefined,
    });
    expect(result.ok ? [] : result.faults.map(({ field }) => field)).toEqual(["id", "ext", "ext"]);
  });

  test("a flood of made-up names hides no fault of CloudEvents' own attributes", () => {
    const flood = Array.from({ length: 1_000 }, (_, at): [string, string] => [`X${at}`, "1"]);
    const result = buildEvent({
      attributes: [...flood, ...Object.entries({ ...REQUIRED, id: "", type: "\u0001" })],
      data: undefined,
    });
    expect(result.ok ? [] : result.faults.slice(0, 3).map(({ field }) => field)).toEqual([
      "id",
      "type",
      "X0",
    ]);
  });

  test("a name of any length is cut in messages, and never makes them unsound text", () => {
    const [fault] = faults({ [`${"a".repeat(59)}😀${"b".repeat(10_000)}`]: "x" });
    expect(fault?.field.length).toBeLessThan(70);
    expect(fault?.field.isWellFormed()).toBe(true);
    expect(fault?.description.length).toBeLessThan(200);
  });
});

describe("CloudEvents, type system: String", () => {
  test.each([
    "\u0000",
    "\u001f",
    "\n",
    "\u007f",
    "\u0085",
    "\u009f",
    "\ud800",
    "\udc00",
    "\ud800a",
    "\ufffe",
    "\uffff",
    "\ufdd0",
    "\ufdef",
    "\u{1ffff}",
    "\u{10fffe}",
  ])("%j is refused anywhere", (character) => {
    for (const name of ["id", "type", "subject", "ext"]) {
      expect(faults({ [name]: `a${character}b` })).toMatchObject([
        { field: name, reason: "INVALID_ATTRIBUTES" },
      ]);
    }
  });

  test("all else is kept as it is", () => {
    const text = " \u0020\u00a0\u2028\ufffd\ufeff\u{10000}😀 e\u0301";
    expect(event({ id: text, ext: text })).toMatchObject({ id: text, extensions: new Map([["ext", text]]) });
  });
});

describe("CloudEvents, required attributes", () => {
  test.each(["specversion", "id", "source", "type"])("%s is required and not empty", (name) => {
    const others = Object.entries(REQUIRED).filter(([other]) => other !== name);
    expect(buildEvent({ attributes: others, data: undefined })).toEqual({
      ok: false,
      faults: [
        { field: name, reason: "INVALID_ATTRIBUTES", description: `${name} is required and missing.` },
      ],
    });
    expect(faults({ [name]: "" })).toEqual([
      { field: name, reason: "INVALID_ATTRIBUTES", description: `${name} may not be empty.` },
    ]);
  });

  test.each(["0.3", "1", "1.0.2", "2.0", " 1.0"])("specversion %j is refused", (specversion) => {
    expect(faults({ specversion })).toEqual([
      { field: "specversion", reason: "INVALID_ATTRIBUTES", description: 'specversion must be "1.0".' },
    ]);
  });

  test("source is a URI-reference", () => {
    expect(faults({ source: "a b" })).toMatchObject([{ field: "source", reason: "INVALID_ATTRIBUTES" }]);
  });
});

describe("CloudEvents, optional attributes", () => {
  test.each(["subject", "time", "datacontenttype", "dataschema"])(
    "%s may be absent, but not empty",
    (name) => {
      expect(event()).toMatchObject({ [name]: undefined });
      expect(faults({ [name]: "" })).toEqual([
        {
          field: name,
          reason: "INVALID_ATTRIBUTES",
          description: `${name} may not be empty; leave it out instead.`,
        },
      ]);
    },
  );

  test.each([
    ["time", "yesterday"],
    ["time", "2016-12-31T23:59:60Z"],
    ["datacontenttype", "json"],
    ["dataschema", "/relative"],
  ])("%s %j is refused", (name, value) => {
    expect(faults({ [name]: value })).toMatchObject([{ field: name, reason: "INVALID_ATTRIBUTES" }]);
  });

  test("a leap second is refused by name", () => {
    expect(faults({ time: "2016-12-31T23:59:60Z" })[0]?.description).toBe(
      "time is a leap second (:60), which cannot be kept; send :59 or the second after.",
    );
  });
});

test("extensions are kept in the order of their names, and may be empty", () => {
  expect([...event({ b: "2", a10: "", a: "1", "1": "x" }).extensions]).toEqual([
    ["1", "x"],
    ["a", "1"],
    ["a10", ""],
    ["b", "2"],
  ]);
});

test("an attribute that is set to nothing is absent, but may not be named again", () => {
  const attributes: [string, string | null][] = [
    ...Object.entries(REQUIRED),
    ["subject", null],
    ["Ext", null],
  ];
  const decoded = decodedFrom({ attributes, data: undefined }, createFaults());
  expect(decoded).toMatchObject({ ok: true, value: { subject: undefined, extensions: new Map() } });
  const again = decodedFrom(
    { attributes: [...attributes, ["subject", "s"], ["Ext", "x"]], data: undefined },
    createFaults(),
  );
  expect(again.ok ? [] : again.faults.map(({ field }) => field)).toEqual(["subject", "Ext", "Ext"]);
});

test("attributesOf gives back what the event was built from", () => {
  const attributes = {
    ...REQUIRED,
    subject: "sub",
    time: "2026-11-01T10:30:00.50+01:00",
    datacontenttype: "text/plain",
    dataschema: "urn:x",
    a: "1",
    b: "",
  };
  expect(Object.fromEntries(attributesOf(event(attributes)))).toEqual(attributes);
});

test("a decoder's own faults come with the others, and what was read in spite of them is a draft", () => {
  const faults = createFaults();
  faults.add("id", "INVALID_ATTRIBUTES", "It could not be read.");
  const attributes = Object.entries({
    ...REQUIRED,
    id: undefined,
    source: "a b",
    time: "2026-11-01T10:00:00Z",
  });
  expect(decodedFrom({ attributes, data: undefined }, faults)).toMatchObject({
    ok: false,
    faults: [{ field: "id", description: "It could not be read." }, { field: "source" }],
    draft: { id: "", source: "a b", type: "t", time: { text: "2026-11-01T10:00:00Z" } },
  });
});
