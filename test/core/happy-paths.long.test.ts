import { testHappyPaths } from './support/happy-paths.js';

testHappyPaths();
