// Requests of the page to the cluster, and the stream of updates.

let token = "";

export function start() {
  const given = new URLSearchParams(location.search).get("token");
  try {
    if (given) sessionStorage.setItem("token", given);
    token = given ?? sessionStorage.getItem("token") ?? "";
  } catch {
    token = given ?? "";  // a browser without storage
  }
  // Keeps the token out of the browser's history and of sight.
  if (given) history.replaceState(null, "", location.pathname + location.hash);
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(path, options = {}) {
  const headers = { Authorization: `Bearer ${token}` };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const found = await fetch(`v1${path}`, { ...options, headers });
  if (!found.ok) {
    const text = await found.text();
    let message = text;
    try {
      message = JSON.parse(text).errors.join("; ");
    } catch { /* not JSON: use the text */ }
    throw new Refused(found.status, message);
  }
  return found;
}

export async function ask(path) {
  return (await answer(path)).json();
}

export async function askText(path) {
  const found = await answer(path);
  return { text: await found.text(), position: Number(found.headers.get("X-Log-Position")) };
}

export async function send(path, method, body) {
  return (await answer(path, { method, body: body && JSON.stringify(body) })).json();
}

// Triggers an operation and waits for its outcome.
export async function outcome(path, body, statusPath = path, method = "POST") {
  const trigger = (await send(path, method, body))["request-id"];
  for (;;) {
    const found = await ask(`${statusPath}/${trigger}`);
    if (found.status.id === "COMPLETED") {
      const failure = found.operation["failure-cause"];
      if (failure) throw new Refused(409, failure["stack-trace"]);
      return found.operation;
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

// Calls `told` with each picture until the returned function is called; calls `broken` with the
// reason if there is none, and with null when there is one again.
export function watch(job, told, broken) {
  const abort = new AbortController();
  let ended = false;
  const run = async () => {
    while (!abort.signal.aborted && !ended) {
      try {
        const found = await answer(`/events?job=${encodeURIComponent(job)}`, { signal: abort.signal });
        await read(found.body.getReader(), (event, data) => {
          if (event === "end") ended = true;
          else told(data);
        });
        broken(ended ? { ended: true } : { message: "The cluster closed the connection." });
      } catch (error) {
        if (abort.signal.aborted) return;
        broken(error instanceof Refused ? { message: error.message, status: error.status }
          : { message: "The cluster does not answer." });
      }
      if (!ended) await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  };
  run();
  return () => abort.abort();
}

async function read(reader, told) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      let name = "message", data = "";
      for (const line of event.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) told(name, JSON.parse(data));
    }
  }
}
