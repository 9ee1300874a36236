/** For the whole exchange. */
const withinMs = 10_000;

/** Posts JSON once. Rejects, with nothing of the URL in the message, unless a 2xx comes back in time. */
export async function postAlert(url: string, body: string): Promise<void> {
  let status: number;
  try {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": "wamid-relay" },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(withinMs),
    });
    status = answer.status;
    await answer.body?.cancel();
  } catch (error) {
    const { name, cause } = error as { name?: string; cause?: { code?: string } };
    throw new Error(`no answer (${name === "TimeoutError" ? `none within ${withinMs / 1000} s` : (cause?.code ?? name)})`);
  }
  if (status < 200 || status > 299) throw new Error(`answered ${status}`);
}
