package desk

// Outward is for tests.
var Outward = outward
