package embedded

// Limit is the least limit of memory that files tell of.
var Limit = limit
