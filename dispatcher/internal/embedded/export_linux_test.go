package embedded

// Lowest is the least limit of memory that some sources know.
var Lowest = lowest
