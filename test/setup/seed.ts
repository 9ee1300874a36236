/**
 * The seed of everything random in tests: fixed unless TEST_SEED names another. `npm run test:all`
 * draws one for each run. The configuration puts it into the environment of the workers.
 */
export const testSeed = Number(process.env["TEST_SEED"] ?? 1);
