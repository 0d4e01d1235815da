package otlp

// Provide is provide. Tests give it an exporter of their own, so that it runs in simulated time.
var Provide = provide
