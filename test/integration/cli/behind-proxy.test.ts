import { expect, test } from "vitest";
import { runHere } from "../../harness/run-here.ts";
import { startTestServer } from "../sandbox/test-server.ts";

test.each([["listen"], ["console", "--no-open"], ["events", "list"], ["reconcile"]])(
  "%s --relay with the address of a proxy: names the SSH tunnel",
  async (...command) => {
    const proxy = await startTestServer(
      (response) =>
        void response.writeHead(404, { "content-type": "text/html" }).end("<h1>Not Found</h1>"),
    );
    const { code, out, err } = await runHere([...command, "--relay", proxy.url], {
      RELAY_TOKEN: "the-token-of-the-relay",
    });
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain("(status 404");
    expect(err).toContain(
      "open an SSH tunnel to the control port (docs/how-to/deploy.md), then use --relay http://127.0.0.1:9090",
    );
  },
);
