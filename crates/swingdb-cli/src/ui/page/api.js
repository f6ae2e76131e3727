// Calls of the program that serves this page; docs/ui.md describes them.

const KEY = "swingdb.token";

/** What a call was refused with: `status` of HTTP (0: nobody answers) and the reason. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The token is in the address behind the #, which browsers do not send. It leaves the address bar
// at once, and lives as long as the tab.
const given = /^#token=([0-9a-f]+)$/.exec(location.hash);
if (given) {
  sessionStorage.setItem(KEY, given[1]);
  history.replaceState(null, "", location.pathname);
}

function request(method, path, body, keepalive) {
  return fetch(`/api/${path}`, {
    method,
    keepalive,
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` },
  });
}

/** One call: its answer, or `Refused`. */
export async function call(method, path, body) {
  let response;
  let answer;
  try {
    response = await request(method, path, body, false);
    answer = await response.json();
  } catch {
    throw new Refused(0, "swingdb ui does not answer: was it ended?");
  }
  if (!response.ok) throw new Refused(response.status, answer.error);
  return answer;
}

/** A call whose answer nobody waits for; it is made even when the page goes away. */
export function tell(method, path) {
  request(method, path, undefined, true).catch(() => {});
}

/**
 * Runs SQL in a session up to its end; `watch(run, about)` hears how far it is. Returns
 * [number of the run, its state].
 */
export async function run(session, sql, { explain = false, watch = () => {} } = {}) {
  const { run: number } = await call("POST", `sessions/${session}/runs`, { sql, explain });
  for (let wait = 200; ; wait = 500) {
    const about = await call("GET", `runs/${number}?wait=${wait}`);
    if (about.state !== "running") return [number, about];
    watch(number, about);
  }
}
