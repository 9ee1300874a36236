/** Envelopes of other senders, by keys that they have: with a text, that value; with true, any. */
const envelopes: readonly (readonly [name: string, keys: Readonly<Record<string, string | true>>])[] = [
  // 360dialog and Gupshup v3 pass on the same one.
  ["Meta's Cloud API", { object: "whatsapp_business_account", entry: true }],
  ["Meta's Graph API", { object: true, entry: true }],
  ["Stripe", { object: "event", type: true }],
  ["PayPal", { event_type: true, resource_type: true }],
  ["AWS SNS", { Type: true, TopicArn: true, MessageId: true }],
  ["Mailgun", { signature: true, "event-data": true }],
  ["Adyen", { live: true, notificationItems: true }],
  ["Trello", { action: true, model: true }],
  ["GitHub", { repository: true, sender: true }],
  ["Shopify", { admin_graphql_api_id: true }],
  ["Slack", { type: "event_callback", team_id: true }],
  ["Telegram", { update_id: true }],
  ["CloudEvents", { specversion: true, source: true, type: true }],
  ["Vonage", { message_uuid: true, channel: true }],
  ["Sinch", { app_id: true, project_id: true }],
  ["YCloud", { apiVersion: true, createTime: true, type: true }],
  ["Evolution API", { event: true, instance: true, data: true }],
  ["WAHA", { event: true, session: true, payload: true }],
  ["Chatwoot", { event: true, account: true, inbox: true }],
  ["Standard Webhooks", { type: true, timestamp: true, data: true }],
];

export function otherEnvelope(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const body = value as Readonly<Record<string, unknown>>;
  return envelopes.find(([, keys]) =>
    Object.entries(keys).every(([key, wanted]) => Object.hasOwn(body, key) && (wanted === true || body[key] === wanted)),
  )?.[0];
}

export function otherForm(text: string): string | undefined {
  if (!/^[\w.~%+*-]+=[^\s{}<>]*$/.test(text)) return undefined;
  return /(?:^|&)AccountSid=/.test(text) ? "a form of Twilio's" : "a form";
}
