import fc from "fast-check";
import { testSeed } from "./seed.ts";

// Without a seed, fast-check takes the time: then a property with a rare counterexample fails somebody else's change.
fc.configureGlobal({ seed: testSeed });
