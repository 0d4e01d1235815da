package main

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher/client"
)

// blamedCommands are the commands for calls of the API that its errors name as a cure.
var blamedCommands = map[string]string{
	"GET /v1/deliveries":             "hookladder deliveries",
	"GET /v1/endpoints":              "hookladder endpoints list",
	"GET /v1/jobs":                   "hookladder jobs",
	"GET /v1/lanes":                  "hookladder lanes",
	"GET /v1/links":                  "hookladder link list",
	"DELETE /v1/jobs/{id}":           "hookladder jobs stop <job>",
	"DELETE /v1/links/{id}":          "hookladder link revoke <link>",
	"POST /v1/endpoints/{id}/resume": "hookladder resume <endpoint>",
	"POST /v1/lanes/{lane}/resume":   "hookladder resume <destination>",
	"POST /v1/deliveries/retry":      "hookladder retry",
	"POST /v1/messages":              "hookladder send",
}

// otherFlags are flags whose names differ from their fields: a flag that may be repeated has one value.
var otherFlags = map[string]string{
	"topics": "topic", "topics_allowed": "allow-topic", "headers": "header",
	"raw_body": "body", "raw_body_base64": "body-file", "secret": "secret-file",
}

var (
	placePattern  = regexp.MustCompile(`^(\$|query|path|header)(?:\.([A-Za-z_-]+))?(.*)$`)
	callPattern   = regexp.MustCompile(`(?:GET|POST|PATCH|PUT|DELETE) /v1/[a-z/{}_-]*[a-z}]`)
	namePattern   = regexp.MustCompile(`\b[a-z]+(?:_[a-z]+)+\b`)
	memberPattern = regexp.MustCompile(`"([a-z_]+)": true`)
	oneOfPattern  = regexp.MustCompile(`\bgive (?:one of )?[a-z_]+(?:, [a-z_]+)* (?:and|or) [a-z_]+`)
	wordPattern   = regexp.MustCompile(`[a-z_]+`)
)

// blame returns the text of an error of cmd. In a problem of the API it replaces the names of the API
// by the names on the command line.
func blame(cmd *cobra.Command, err error) string {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err.Error()
	}
	typed := p.Problem
	typed.Detail, typed.Errors = withCommands(cmd, p.Detail), slices.Clone(p.Errors)
	for i, e := range p.Errors {
		typed.Errors[i].Path, typed.Errors[i].Detail = flagOrArgument(cmd, e.Path), withCommands(cmd, e.Detail)
	}
	return strings.Replace(err.Error(), p.Error(), typed.Error(), 1)
}

// flagOrArgument returns the flag or argument for a path of the API, or the path if there is none.
func flagOrArgument(cmd *cobra.Command, path string) string {
	m := placePattern.FindStringSubmatch(path)
	switch args := cmd.Flags().Args(); {
	case m == nil || m[1] == "header":
		return path
	case m[1] == "path" && len(args) > 0:
		return strconv.Quote(args[0])
	case path == "$":
		return cmd.CommandPath()
	}
	flag := namedFlag(cmd, m[2])
	if flag == "" {
		return path
	}
	if entry, ok := strings.CutPrefix(m[3], "."); ok && (flag == "--header" || flag == "--metadata") {
		return flag + " " + entry
	}
	return flag
}

// namedFlag returns the flag of a field; empty: cmd has none. If the field has two, it is the flag that
// was typed.
func namedFlag(cmd *cobra.Command, field string) string {
	names := []string{strings.ReplaceAll(field, "_", "-"), otherFlags[field], strings.TrimPrefix(otherFlags[field], "body-")}
	if field == "body" || field == "raw_body" {
		names = append(names, "body-file")
	}
	found := ""
	for _, n := range names {
		if f := cmd.Flags().Lookup(n); f != nil && (found == "" || f.Changed) {
			found = "--" + n
		}
	}
	return found
}

// withCommands replaces calls by commands, and fields by flags, in a sentence of the API.
func withCommands(cmd *cobra.Command, text string) string {
	text = callPattern.ReplaceAllStringFunc(text, func(c string) string {
		if command := blamedCommands[c]; command != "" {
			return "`" + command + "`"
		}
		return c
	})
	text = memberPattern.ReplaceAllStringFunc(text, func(f string) string {
		return cmp.Or(namedFlag(cmd, memberPattern.FindStringSubmatch(f)[1]), f)
	})
	text = oneOfPattern.ReplaceAllStringFunc(text, func(list string) string {
		return wordPattern.ReplaceAllStringFunc(list, func(w string) string { return cmp.Or(namedFlag(cmd, w), w) })
	})
	return namePattern.ReplaceAllStringFunc(text, func(w string) string { return cmp.Or(namedFlag(cmd, w), w) })
}

// nearCommands returns the flags that a person may have meant by an unknown one, sorted by name.
func nearCommands(cmd *cobra.Command, typed string) (near []string) {
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	for _, k := range known {
		if len(typed) > 2 && (strings.HasPrefix(k, typed+"-") || strings.HasSuffix(k, "-"+typed) || k == typed+"s" || k+"s" == typed || k+"es" == typed) {
			near = append(near, "--"+k)
		}
	}
	plain := strings.ReplaceAll(typed, "_", "-")
	switch closest := settings.Closest(plain, known); {
	case len(near) > 0:
	case typed == "kind" && slices.Contains(known, "pull"):
		near = []string{"--pull"}
	case typed == "format" && slices.Contains(known, "csv"):
		near = []string{"--csv", "--json"}
	case closest != "":
		near = []string{"--" + closest}
	}
	return near
}
