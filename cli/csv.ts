/** What a row has come to: all of its cells, or why it has none; neither while a cell goes on in the next line. */
export interface CsvStep {
  readonly cells?: readonly string[];
  readonly fault?: string;
}

/** A row of CSV (RFC 4180), which is given line by line; lines end with "\n" or "\r\n". */
export interface CsvRow {
  /** The next line, without its "\n". */
  add(line: string): CsvStep;
}

/** A row of which nothing was read. */
export function createCsvRow(): CsvRow {
  const cells: string[] = [];
  /** The text so far of a quoted cell that is not closed. */
  let quoted: string | undefined;

  return {
    add(line) {
      let at = 0;
      if (quoted !== undefined) quoted += "\n";
      for (;;) {
        if (quoted === undefined) {
          if (line[at] === '"') {
            quoted = "";
            at += 1;
            continue;
          }
          const comma = line.indexOf(",", at);
          const cell = withoutReturn(comma < 0 ? line.slice(at) : line.slice(at, comma), comma < 0);
          if (cell.includes('"')) return { fault: FAULTS.inside };
          cells.push(cell);
          if (comma < 0) return { cells };
          at = comma + 1;
          continue;
        }
        const quote = line.indexOf('"', at);
        if (quote < 0) {
          quoted += line.slice(at);
          return {};
        }
        quoted += line.slice(at, quote);
        at = quote + 1;
        if (line[at] === '"') {
          quoted += '"';
          at += 1;
          continue;
        }
        cells.push(quoted);
        quoted = undefined;
        if (at === line.length || line.slice(at) === "\r") return { cells };
        if (line[at] !== ",") return { fault: FAULTS.behind };
        at += 1;
      }
    },
  };
}

const FAULTS = {
  inside:
    'A quote stands within a cell that does not begin with one: write the cell as "…", with each quote in it twice.',
  behind:
    "Something stands between the quote that ends a cell and the comma after it: write each quote within the cell twice.",
};

function withoutReturn(cell: string, isLast: boolean): string {
  return isLast && cell.endsWith("\r") ? cell.slice(0, -1) : cell;
}
