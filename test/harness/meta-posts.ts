import { createHmac } from "node:crypto";

/** An app secret and verify token of {@link metaSource}. */
export const appSecret = "an app secret of Meta";
export const metaToken = "a verify token";
export const metaNumber = "106540352242922";
export const metaAccount = "102290129340398";

/** Settings of a source for Meta's Cloud API. */
export const metaSource = {
  format: "meta",
  verifyTokens: [metaToken],
  signature: { secrets: [appSecret] },
};

/** One change of the field `messages`. */
export const metaChange = (value: object, number = metaNumber) => ({
  field: "messages",
  value: {
    messaging_product: "whatsapp",
    metadata: { display_phone_number: "1", phone_number_id: number },
    ...value,
  },
});

export const metaStatus = (wamid: string, status: string, more: object = {}) => ({
  id: wamid,
  status,
  timestamp: "1750263773",
  recipient_id: "16505551234",
  ...more,
});

/** Posts one signed request with these changes. */
export async function postMeta(
  { url }: { readonly url: string },
  ...changes: object[]
): Promise<Response> {
  const body = JSON.stringify({
    object: "whatsapp_business_account",
    entry: [{ id: metaAccount, changes }],
  });
  const signature = `sha256=${createHmac("sha256", appSecret).update(body).digest("hex")}`;
  const headers = { "content-type": "application/json", "x-hub-signature-256": signature };
  return fetch(`${url}/webhooks/wa`, { method: "POST", headers, body });
}

/** Meta's handshake with the source. */
export function shakeMeta({ url }: { readonly url: string }, token = metaToken): Promise<Response> {
  const query = new URLSearchParams({
    "hub.mode": "subscribe",
    "hub.challenge": "1158201444",
    "hub.verify_token": token,
  });
  return fetch(`${url}/webhooks/wa?${query}`);
}
