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
