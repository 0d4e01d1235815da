package conn

// NotDurable judges how many have a write.
var NotDurable = notDurable
