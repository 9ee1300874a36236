/** A span of time for a person: `45 s`, `12 min`, `3.5 h`, `8 days`. */
export function spanText(ms: number): string {
  const seconds = Math.abs(ms) / 1000;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}
