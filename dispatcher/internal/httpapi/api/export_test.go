package api

// Receive is for tests.
var Receive = receive

// Taken returns the bytes that are reserved.
func (h *Reservation) Taken() int64 { return h.n }
