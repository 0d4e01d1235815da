package httpapi

// Outward is for tests.
var Outward = outward
