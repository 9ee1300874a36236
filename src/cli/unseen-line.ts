/** Said where more events wait to be planned than are looked through for those of a message. */
export function unseenLine(count: number): string {
  return `not looked at: the oldest ${count} of the events that wait to be planned; there may be more of the message`;
}
