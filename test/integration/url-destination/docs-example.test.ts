import { writeFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { codeBlocks, readPage } from "../../harness/pages.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { attempt, destinationTo } from "./attempt.ts";
import { startHttp } from "./downstream.ts";

type VerifyWebhook = (
  headers: IncomingHttpHeaders,
  body: Buffer,
  secret: string,
  now?: number,
) => boolean;

async function exampleOfDocs(): Promise<VerifyWebhook> {
  const [code = ""] = codeBlocks(readPage("docs/reference/signatures.md"), "js").filter((text) =>
    text.startsWith("// verify-webhook.mjs"),
  );
  const file = join(tempFolder(), "verify-webhook.mjs");
  await writeFile(file, code);
  return ((await import(/* @vite-ignore */ file)) as { verifyWebhook: VerifyWebhook })
    .verifyWebhook;
}

test.each(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "plain text ñ"])(
  "the example in docs/reference/signatures.md verifies what we send (%s)",
  async (secret) => {
    const verifyWebhook = await exampleOfDocs();
    const downstream = await startHttp((_request, response) => response.end());
    await attempt(destinationTo(downstream.url, { secret }));
    const request = downstream.seen[0];
    if (request === undefined) throw new Error("nothing arrived");
    const { headers, body } = request;
    expect(verifyWebhook(headers, body, secret)).toBe(true);

    expect(verifyWebhook(headers, Buffer.concat([body, Buffer.from(" ")]), secret)).toBe(false);
    expect(verifyWebhook(headers, body, `${secret}x===`.replace("MfKQ", "AfKQ"))).toBe(false);
    expect(verifyWebhook({ ...headers, "webhook-id": "dlv_other" }, body, secret)).toBe(false);
    expect(verifyWebhook({ ...headers, "webhook-timestamp": "soon" }, body, secret)).toBe(false);
    expect(verifyWebhook({ ...headers, "webhook-signature": "v1,AAAA v2,x" }, body, secret)).toBe(
      false,
    );
    expect(verifyWebhook(headers, body, secret, Date.now() + 600_000)).toBe(false);
    const rotated = { ...headers, "webhook-signature": `v1,AAAA ${headers["webhook-signature"]}` };
    expect(verifyWebhook(rotated, body, secret)).toBe(true);
  },
);
