/*
 * Answers of endpoints whose schemas are not in src/model yet. Each moves there with its endpoint; the names stay.
 */

export interface RelaySession {
  name: string;
  scopes: string[];
  expiresAt: string;
}

export interface SessionCode {
  code: string;
  expiresAt: string;
}

export interface DeliveryGroup {
  route: string;
  state: "waiting" | "held" | "delivered" | "dead";
  cause: string | null;
  attempted: boolean;
  count: number;
  oldestAt: string | null;
  newestAt: string | null;
}
