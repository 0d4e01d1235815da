// Package deploy embeds the documents of this version, so that the binary can serve them.
package deploy

import "embed"

// Documents has README.md, which describes how to deploy, the pages of docs/, and their pictures.
//
//go:embed README.md docs/*.md pictures/*.png
var Documents embed.FS
