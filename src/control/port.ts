/**
 * What the control API asks of the relay. Views are plain data that go out as JSON; times in them are
 * unix ms and leave as ISO 8601 (see `present.ts`).
 */
export interface Control {
  listEvents(filter: EventQuery): EventView[];
  /** By event id, or by `seq` as a number. */
  findEvents(id: string): EventDetail[];
  listDeliveries(filter: DeliveryQuery): DeliveryView[];
  deliveriesOf(event: number): (DeliveryView & { attempts: number; tries: AttemptView[] })[];
  retry(deliveryId: string): Promise<{ id: string; state: string } | null>;
  countReplay(filter: ReplayQuery): number;
  replay(filter: ReplayQuery): Promise<number>;
  register(registrations: readonly Registration[]): Promise<{ created: number }>;
  resume(route: string): Promise<boolean>;
  stats(): unknown;
}

export interface EventQuery {
  event?: string | undefined;
  source?: string | undefined;
  account?: string | undefined;
  status?: string | undefined;
  disposition?: "forwarded" | "filtered" | "ignored" | "quarantined" | "parked" | undefined;
  wamid?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
  before?: number | undefined;
  limit: number;
}

export interface EventView {
  readonly seq: number;
  readonly receivedAt: number;
  readonly createdAt: number | null;
  readonly parkedUntil: number | null;
}

export interface EventDetail extends EventView {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly verdicts: readonly (readonly [route: string, verdict: string, reason?: string])[];
}

export interface DeliveryQuery {
  route?: string | undefined;
  state?: "waiting" | "held" | "delivered" | "dead" | undefined;
  before?: number | undefined;
  limit: number;
}

export interface DeliveryView {
  readonly id: string;
  readonly event: number;
  readonly nextAt: number | null;
  readonly settledAt: number | null;
}

export interface AttemptView {
  readonly number: number;
  readonly at: number;
  readonly tookMs: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly response: Buffer | null;
}

export interface ReplayQuery {
  route?: string | undefined;
  states: readonly ("delivered" | "dead")[];
  errorCode?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

export interface Registration {
  account: string;
  wamid: string;
  id?: string | undefined;
  reference?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
}
