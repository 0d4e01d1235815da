package wire

// Notice is the body of a message that Hookladder itself publishes. Fields that do not apply are
// left out.
type Notice struct {
	Type           string `json:"type" words:"notice" doc:"Also the topic."`
	At             Time   `json:"at"`
	Tenant         string `json:"tenant,omitzero"`
	Endpoint       string `json:"endpoint,omitzero" doc:"The id of the endpoint."`
	UID            string `json:"uid,omitzero" doc:"Its uid."`
	Destination    string `json:"destination,omitzero" doc:"The lane."`
	Origin         string `json:"origin,omitzero" doc:"Scheme, host and port."`
	State          string `json:"state,omitzero" doc:"Of the endpoint, the lane or the job; or lost, unhealthy or healthy."`
	Since          Time   `json:"since,omitzero" doc:"When this state began."`
	Reason         string `json:"reason,omitzero" doc:"The cause, in one word."`
	Waiting        *int   `json:"waiting,omitempty" doc:"How many deliveries wait for the destination."`
	LastStatusCode int    `json:"last_status_code,omitzero" doc:"Of the receiver's last response."`
	Count          int    `json:"count,omitzero" doc:"How many deliveries the notice is about."`
	Job            string `json:"job,omitzero" doc:"The id of the job."`
	Kind           string `json:"kind,omitzero" words:"job-kind" doc:"Of the job."`
	Done           *int   `json:"done,omitempty" doc:"As the job has it."`
	Failed         *int   `json:"failed,omitempty" doc:"As the job has it."`
	Left           *int   `json:"left,omitempty" doc:"As the job has it."`
	Detail         string `json:"detail,omitzero" doc:"For the operator only, at OPS_URL. It may name keys, instances and errors."`
}
