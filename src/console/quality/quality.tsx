export function Quality() {
  return <h1>Quality</h1>;
}
