/**
 * A text as a YAML scalar of the settings. JSON's quotes are YAML's, and `${` would begin a
 * variable.
 */
export function yamlText(text: string): string {
  return JSON.stringify(text.replaceAll("${", () => "$${"));
}
