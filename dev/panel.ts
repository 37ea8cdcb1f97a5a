/** What a person needs to know of a Weir that runs. */
export interface PanelFacts {
  /** Where it serves, without a path. */
  readonly url: string;
  /** Where the workers answer, without a path. */
  readonly workersUrl: string;
  readonly token: string;
  /** How long the token is good for, such as "24 h". */
  readonly tokenLife: string;
  /** There is one broker, so one copy of each event. */
  readonly oneCopy: boolean;
  /** Why roles of the workers do not do all of their work, a text each. */
  readonly faults: readonly string[];
  /** The folder without which all begins anew; undefined where that would leave something behind. */
  readonly beginAnew: string | undefined;
  readonly logs: string;
  /** The file of settings for further processes. */
  readonly envFile: string;
}

/** The last thing that the launcher prints: where to go, and two lines to paste into another terminal. */
export function panel(facts: PanelFacts): string {
  const copies = facts.oneCopy
    ? "One Kafka broker: each event is kept in one copy. Production takes three."
    : "";
  return `
  Weir runs at ${facts.url}
${copies === "" ? "" : `  ${copies}\n`}${trouble(facts)}
  A token with every scope, for ${facts.tokenLife} (npm run token makes others):

${facts.token}

  Post an event, from another terminal in this folder:

${postLine(facts)}

  Find it again:

${searchLine(facts)}

  Workers: ${facts.workersUrl}/readyz, ${facts.workersUrl}/metrics
  Logs: ${facts.logs}
  Settings for further processes: ${facts.envFile}
  Ctrl-C stops everything.

`;
}

/** What does not work, and what is to be done about that here. */
function trouble({ faults, beginAnew, envFile }: PanelFacts): string {
  if (faults.length === 0) return "";
  const anew =
    beginAnew === undefined ? "" : ` To begin anew with nothing stored, stop this and delete ${beginAnew}.`;
  return `
  NOT ALL OF IT WORKS. The server takes events; the workers say:

${faults.map((fault) => `  ${fault}\n`).join("")}
  They go on by themselves once that is cured. SQL is for the database at WEIR_DATABASE_URL (in
  ${envFile}), by psql or another client.${anew}
`;
}

/** A line for sh, bash and zsh that posts an event with a new id and the current time. */
export function postLine({ url, token }: Pick<PanelFacts, "url" | "token">): string {
  const event =
    quote('{"specversion":"1.0","id":"hello-') +
    '"$(date +%s)"' +
    quote('","source":"/hello","type":"com.example.hello","time":"') +
    '"$(date -u +%Y-%m-%dT%H:%M:%SZ)"' +
    quote('","data":{"greeting":"hello, world"}}');
  return [
    `curl -sS${url.startsWith("https:") ? " --insecure" : ""} ${quote(`${url}/v1/events`)}`,
    `-H ${quote(`Authorization: Bearer ${token}`)}`,
    `-H ${quote("Content-Type: application/cloudevents+json")}`,
    `-d ${event}`,
  ].join(" ");
}

/** A line for sh, bash and zsh that searches the newest events, by reflection alone. */
export function searchLine({ url, token }: Pick<PanelFacts, "url" | "token">): string {
  return [
    `npx buf curl ${url.startsWith("https:") ? "--insecure" : "--http2-prior-knowledge"}`,
    `-H ${quote(`Authorization: Bearer ${token}`)}`,
    `-d ${quote('{"page_size":5}')}`,
    quote(`${url}/weir.v1.SearchService/SearchEvents`),
  ].join(" ");
}

/** One word for a POSIX shell, whatever the text holds. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
