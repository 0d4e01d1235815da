package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// fileLine is one endpoint of a file. err is the reason why its line is not valid.
type fileLine struct {
	line     int
	endpoint wire.Endpoint
	given    map[string]json.RawMessage // the fields of the line, without null
	err      error
}

// maxLine is the largest line in bytes. An endpoint with all its fields has less than 100 KiB.
const maxLine = 1 << 20

// importEntries reads a file line by line. It returns io.EOF after the last one.
func importEntries(in io.Reader, format string) (next func() (fileLine, error), err error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if format == formatCSV {
		return csvEntries(buffered)
	}
	line := 0
	return func() (fileLine, error) {
		for {
			text, long, err := readImportLine(buffered)
			line++
			switch {
			case err != nil:
				return fileLine{}, err
			case long:
				return fileLine{line: line, err: fmt.Errorf("has more than %d bytes", maxLine)}, nil
			case len(bytes.TrimSpace(text)) > 0:
				return parseImportLine(line, text), nil
			}
		}
	}, nil
}

// readImportLine returns a line. Of one that is too long, it returns only that.
func readImportLine(in *bufio.Reader) (text []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxLine; !long {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(text) > 0 || long):
			return text, long, nil
		default:
			return text, long, err
		}
	}
}

func parseImportLine(line int, text []byte) fileLine {
	e := fileLine{line: line}
	if err := json.Unmarshal(text, &e.given); err != nil {
		e.err = errors.New("is not a JSON object")
		return e
	}
	e.check()
	return e
}

// check decodes the fields one by one, so that an error names its field.
func (e *fileLine) check() {
	for name, raw := range e.given {
		switch {
		case !slices.Contains(endpointColumns, name):
			e.err = errors.Join(e.err, fmt.Errorf("$.%s: is not a field of an endpoint; known are %s", name, strings.Join(endpointColumns, ", ")))
			continue
		case string(raw) == "null":
			delete(e.given, name)
			continue
		}
		one, err := json.Marshal(map[string]json.RawMessage{name: raw})
		if err == nil {
			err = json.Unmarshal(one, &e.endpoint)
		}
		if err != nil {
			e.err = errors.Join(e.err, fmt.Errorf("$.%s: is not valid: %s", name, strings.TrimPrefix(err.Error(), "json: ")))
		}
	}
	if e.err == nil && e.endpoint.UID == "" {
		e.err = errors.New("$.uid: is needed, because endpoints match by it")
	}
}

// csvEntries reads the header line, which names the fields.
func csvEntries(in io.Reader) (func() (fileLine, error), error) {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	names, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header line: %w", err)
	}
	names = slices.Clone(names)
	names[0] = strings.TrimPrefix(names[0], "\ufeff") // of a spreadsheet
	for _, name := range names {
		if !slices.Contains(endpointColumns, name) {
			return nil, fmt.Errorf("the header line has %q, which is not a field of an endpoint", name)
		}
	}
	return func() (fileLine, error) {
		row, err := r.Read()
		line, _ := r.FieldPos(0)
		var wrong *csv.ParseError
		switch {
		case errors.As(err, &wrong):
			return fileLine{line: wrong.StartLine, err: wrong.Err}, nil
		case err != nil:
			return fileLine{}, err
		}
		e := fileLine{line: line, given: map[string]json.RawMessage{}}
		for i, cell := range row {
			if cell != "" {
				e.given[names[i]] = cellValue(names[i], cell)
			}
		}
		e.check()
		return e, nil
	}, nil
}

// cellValue returns the JSON of a cell. It removes the mark that keeps a spreadsheet from
// reading a formula.
func cellValue(name, cell string) json.RawMessage {
	if len(cell) > 1 && cell[0] == '\'' && strings.ContainsRune("=+-@\t\r", rune(cell[1])) {
		cell = cell[1:]
	}
	if !plainColumns[name] && json.Valid([]byte(cell)) {
		return json.RawMessage(cell)
	}
	text, _ := json.Marshal(cell) // never fails for a text
	return text
}
