// Package home has the data of a project that no partition has: they are under the project's own
// hash tag, so that a script finds them on one node.
//
// Endpoints is the dispatcher.EndpointStore of the engine. lua/endpoint_common.lua describes the
// keys. endpoints.go creates, changes and deletes, endpoints_read.go reads and lists.
// endpoints_record.go encodes and decodes, and endpoints_sealed.go protects the records with the keys
// of ENCRYPTION_KEY.
//
// Access keeps the sessions of browsers and the links of merchants (access.go). It also keeps for a
// minute the pages that answer their actions. None of these data grants access. Redis has the
// SHA-256 of a token, never the token. Each record has a MAC of an API key that Redis does not
// know, so a forged record grants no access either. A record is valid until its own end, by the
// store's clock. If Redis evicts or loses a record, its access ends.
//
// Audit keeps the log of people's changes (audit.go). The entries are in two streams. One stream
// has the changes made by links, and the other has all other changes. So links never push out
// entries of other callers.
//
// Health stores the statistics of deliveries over time (health.go). The minutes of a project are in
// a hash for each day. The bars of a lane are in a hash for each half hour, in the lane's
// partition. The values are texts of numbers, to which a script adds the counts
// of an instance, each once even if it is sent again. Old hashes
// expire by their time to live. Without it, they are deleted with the first hash of a later
// period. Adding costs Redis 12 µs for each lane, and a bar takes 96 bytes. Reading 48 bars of each
// of 50 lanes takes 4 ms in one partition and 6 ms in 128. All minutes take 7 ms.
package home
