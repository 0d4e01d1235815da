// The tests of releases and of the image need libraries that the program does not need.
module github.com/hookladder/hookladder/deploy/release

go 1.26.8

require (
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/mod v0.41.0
)
