package consoleapi

// Outward is for tests.
var Outward = outward
