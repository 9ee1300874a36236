import type { ServiceClient } from "../../service/client.ts";
import type { Receipt } from "../../service/endpoints.ts";
import { checkSums, createPostLog, expectedOf, type ServiceRecords } from "./checks.ts";
import { createRegistration } from "./relay.ts";
import { createSender, isRejected, lived, peopleOf, sendAll, setScene, startCampaign, startService } from "./service.ts";
import type { Played, Stage } from "./stage.ts";

/** Sends through the client, and gets the service's events. */
export async function playService(stage: Stage): Promise<Played> {
  const { seed, messages, rate, url, secret, control, downstream, signal, adopt } = stage;
  const people = peopleOf(seed, { recipients: messages, strangers: Math.ceil(messages / 2), guests: Math.ceil(messages / 20) });
  const log = createPostLog();
  const registration = createRegistration(control);
  const sandbox = adopt(await startService({ seed, webhookUrl: `${url}/webhooks/main`, secret, onPost: log.note }), (one) => one.close());
  await setScene(sandbox, people);
  const sender = adopt(createSender(sandbox, rate), (one) => one.close());

  const settled = stage.begin({ service: sandbox.url, sent: () => registration.wamids.size, log });
  await startCampaign(sandbox, people.strangers);
  const onReceipt = ({ wamid }: Receipt) => registration.accepted(wamid);
  const receipts = await sendAll({ sender, sandbox, people, rate, signal, onReceipt });
  await lived(sandbox, people, signal);
  await registration.finish();

  const service: ServiceRecords = { messages: sandbox.messages(), events: sandbox.events() };
  const tracked = registration.wamids;
  const { untold } = expectedOf(service, log, (wamid) => tracked.has(wamid));
  const polled = await readStatuses(
    receipts.filter(({ wamid }) => untold.has(wamid)),
    sender,
    signal,
  );
  const { stats, counts } = await settled();
  const planned = people.recipients.filter(({ phone }) => !isRejected(phone)).length;
  const client = { planned, messages: receipts.length };
  const inConsole = (await control.getQuality()).sent;
  return { counts, checks: checkSums({ client, service, log, tracked, polled, stats, inConsole, downstream }) };
}

/** Reads what a truncated event leaves out: "the receiver then reads … through the API" (messaging-service-api.md, "Events", 3). */
async function readStatuses(receipts: readonly Receipt[], sender: ServiceClient, signal: AbortSignal): Promise<Map<string, string>> {
  const answers = await Promise.all(receipts.map(({ id }) => sender.getMessage(id ?? "", { signal })));
  return new Map(answers.map(({ wamid, status }) => [wamid, status]));
}
