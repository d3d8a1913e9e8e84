declare module "virtual:request-schema" {
  const schema: { properties: Record<string, object>; $defs: Record<string, object> };
  export default schema;
}
