/** What routing reads of an event. */
export interface RoutedEvent {
  /** Event kind, e.g. `message.status`. */
  readonly event: string;
  readonly account: string;
  readonly source: string;
  /** The status word the event itself carries, whatever tracking made of it. */
  readonly status: string | null;
  /** The error code the event itself carries, as text. */
  readonly errorCode: string | null;
  /** The event's `data`, parsed. */
  readonly data: unknown;
  /** True when the service sent the event without its data. */
  readonly truncated: boolean;
  /** True while the service is being asked what a truncated event was about; not given: it is not. */
  readonly hydrating?: boolean;
}
