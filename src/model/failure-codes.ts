/** Error codes of WhatsApp, as Meta and the messaging service report them for failed messages. */
const meanings: ReadonlyMap<string, string> = new Map([
  ["368", "The network restricts the sender's account, because it broke the network's rules."],
  ["130429", "The sender exceeds the throughput of the network."],
  ["130472", "The network left this person out of marketing messages, as part of an experiment."],
  ["131000", "The network had an unknown error."],
  ["131016", "The messaging network was not available for a moment."],
  [
    "131026",
    "The person cannot be reached: no account on the network, its terms not accepted, or an outdated app.",
  ],
  ["131031", "The network locked the sender's account."],
  ["131042", "The sender's account has no valid payment method."],
  ["131047", "The customer wrote more than 24 hours ago, so only templates are allowed."],
  ["131048", "The network limits the sender, because people blocked or reported its messages."],
  ["131049", "The network limits how many marketing messages a person gets."],
  ["131050", "The person does not want marketing messages of the sender."],
  ["131051", "The network does not support this type of message."],
  ["131052", "The network could not download the media that the person sent."],
  ["131053", "The network could not take the media of the message."],
  ["131056", "Too many messages went to this phone number in a short time."],
  ["131057", "The sender's account is in maintenance."],
  ["131062", "Messages of this type need a phone number instead of a user id."],
  ["132000", "The values of the message do not fit its template."],
  ["132001", "The template does not exist in this language, or is not approved."],
  ["132015", "The network paused the template, because of its quality."],
  ["132016", "The network disabled the template, because of its quality."],
  ["133010", "The sender's phone number is not registered."],
]);

/** What a code means; null if that is not known. */
export const meaningOf = (code: string): string | null => meanings.get(code) ?? null;
