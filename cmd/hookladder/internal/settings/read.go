package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// Sources are the sources of settings. The first one that has a setting is used.
type Sources struct {
	Environ  map[string]string
	Dotenv   map[string]string                 // of a .env file
	Defaults map[string]string                 // replace the defaults of the settings
	ReadFile func(name string) ([]byte, error) // nil: os.ReadFile
}

// A Found is a setting with its value and source, for people.
type Found struct {
	Setting
	Value  string // as given; empty: unset
	Source string
}

// The sources of a setting, besides a file.
const (
	SourceDefault = "default"
	SourceDev     = "default of dev"
	SourceEnviron = "environment"
	SourceDotenv  = ".env"
)

// A Setting is a row of the table.
type Setting struct {
	Name    string
	Default string // empty: unset
	Accepts string // the accepted values, as a noun
	Secret  bool
	File    bool // <Name>_FILE may name a file
	URL     bool // it is printed without its secret parts
	field   reflect.StructField
}

// Table returns the settings from their tags, in order.
func Table() []Setting {
	t := reflect.TypeFor[Settings]()
	table := make([]Setting, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("env") == "-" {
			continue
		}
		s := Setting{
			Name:    f.Tag.Get("env"),
			Default: f.Tag.Get("envDefault"),
			Accepts: f.Tag.Get("accepts"),
			Secret:  f.Tag.Get("secret") != "",
			File:    f.Tag.Get("file") != "",
			URL:     f.Tag.Get("url") != "",
			field:   f,
		}
		if s.Accepts == "" {
			s.Accepts = fmt.Sprintf("%s from %s to %s", quantities[f.Type].noun, f.Tag.Get("min"), f.Tag.Get("max"))
		}
		table = append(table, s)
	}
	return table
}

// Read returns the settings and all mistakes together, each with its variable. It returns the
// settings in any case.
func Read(from Sources) (Settings, []Found, error) {
	var s Settings
	found, faults := from.find(Table())
	values := map[string]string{}
	for _, c := range found {
		values[c.Name] = c.Value
	}
	faults = append(faults, parseFaults(env.ParseWithOptions(&s, env.Options{Environment: values, FuncMap: parsers}), found)...)
	faults = append(faults, s.check(found, faults)...)
	traces, standard, wrong := from.traces()
	s.Traces, faults = traces, append(faults, wrong...)
	found = append(found, standard...)
	if len(faults) == 0 {
		return s, found, nil
	}
	slices.SortStableFunc(faults, func(a, b mistake) int { return strings.Compare(a.name, b.name) })
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return s, found, errors.Join(errs...)
}

// A mistake is the error of one variable. Its text never contains a secret.
type mistake struct {
	name, text string
}

func (f mistake) Error() string { return f.name + f.text }

// find reads each setting. The order is the environment, the environment's file, the .env file in
// the same way, and the default. An empty variable counts as unset, because compose files and CI
// set such variables.
func (from Sources) find(table []Setting) (found []Found, faults []mistake) {
	for _, s := range table {
		c := Found{Setting: s, Value: s.Default, Source: SourceDefault}
		if value, ok := from.Defaults[s.Name]; ok {
			c.Value, c.Source = value, SourceDev
		}
		for _, place := range []struct {
			name string
			vars map[string]string
		}{{SourceEnviron, from.Environ}, {SourceDotenv, from.Dotenv}} {
			value, file := place.vars[s.Name], ""
			if s.File {
				file = place.vars[s.Name+"_FILE"]
			}
			if value == "" && file == "" {
				continue
			}
			c.Value, c.Source = value, place.name
			if file != "" {
				var f *mistake
				if c.Value, f = from.load(s.Name, value, file); f != nil {
					faults = append(faults, *f)
				}
				if c.Source = "file " + file; c.Value == "" {
					c.Source = "file" // it can't be read
				}
			}
			break
		}
		found = append(found, c)
	}
	return found, faults
}

// load returns a setting from the file of <name>_FILE. It removes the newline at the end, because
// editors and echo add one.
func (from Sources) load(name, value, file string) (string, *mistake) {
	if value != "" {
		return "", &mistake{name, " and " + name + "_FILE are both set: use one of them"}
	}
	text, err := from.read(file)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		// The name is not printed: it may be the secret itself, given to the wrong variable.
		return "", &mistake{name + "_FILE", fmt.Sprintf(": the file that it names can't be read: %v", err)}
	}
	value = strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", &mistake{name + "_FILE", fmt.Sprintf("=%q: the file is empty", file)}
	}
	return value, nil
}

// parseFaults returns the error of each field with its variable.
func parseFaults(err error, found []Found) (faults []mistake) {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return nil
	}
	for _, err := range all.Errors {
		var parse env.ParseError
		if !errors.As(err, &parse) {
			faults = append(faults, mistake{"settings", ": " + err.Error()})
			continue
		}
		i := slices.IndexFunc(found, func(c Found) bool { return c.field.Name == parse.Name })
		faults = append(faults, found[i].fault(reasonOf(parse.Err)))
	}
	return faults
}

// mostShown is the highest number of printed bytes of a value, because a picture would fill the
// screen.
const mostShown = 200

// Short returns the value, or the beginning of a long one.
func (c Found) Short() string {
	value := c.Value
	if c.URL && value != "" && !strings.HasPrefix(value, "data:") {
		value = app.ShowURL(value)
	}
	if len(value) <= mostShown {
		return value
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(value[:mostShown], ""), len(value))
}

// fault returns the text of a mistake: the accepted values, and the reason.
func (c Found) fault(reason string) mistake {
	text := fmt.Sprintf("=%q", c.Short())
	if c.Secret || c.URL { // a wrong URL is not sure to have its secrets where Short expects them
		text = ""
	}
	text += ": must be " + c.Accepts
	if reason != "" {
		text += " (" + reason + ")"
	}
	return mistake{c.Name, text}
}

// needs returns the text of a mistake that lies in another setting.
func (c Found) needs(reason string) mistake {
	if c.Secret {
		return mistake{c.Name, ": " + reason}
	}
	return mistake{c.Name, fmt.Sprintf("=%q: %s", c.Short(), reason)}
}
