package service

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// restCall is a REST request that also says which outputs are returned as binary tensors.
type restCall struct {
	*request
	binary    bool            // for outputs that are not in binaryFor
	binaryFor map[string]bool // by output
}

// Maximum numbers of elements in a request. They are checked while the request is read, so that a short body cannot take much memory.
const (
	mostInputs     = 16
	mostOutputs    = 32
	mostDimensions = 8
	mostMembers    = 32 // of an object, including unknown ones
)

// restCall reads and decodes the body of a request.
func (s *Server) restCall(w http.ResponseWriter, r *http.Request) (*restCall, error) {
	in, err := s.openBody(w, r, s.config.Limits.Body)
	if err != nil {
		return nil, err
	}
	c := &restCall{request: in.request, binaryFor: map[string]bool{}}
	c.copies = jsonCopies
	text := io.Reader(in)
	if length := r.Header.Get(jsonLength); length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > in.limit || r.ContentLength >= 0 && int64(n) > r.ContentLength && r.Header.Get("Content-Encoding") == "" {
			return nil, invalid("header %s: %q, must be a length within the body", jsonLength, length)
		}
		text = io.LimitReader(in, int64(n))
	}
	d := &restDecoder{Decoder: jsontext.NewDecoder(text), body: in, server: s, restCall: c, size: -1}
	err = d.readRequest()
	if err == nil {
		err = in.blank(d.UnreadBuffer(), text)
	}
	if err == nil && d.size >= 0 {
		d.known = true
		if err = d.foresee(); err == nil {
			c.input.raw, err = in.rest(d.size)
		}
	}
	if err != nil {
		return nil, in.wrong(err)
	}
	switch more, err := in.rest(1); {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, in.wrong(err)
	case len(more) > 0 && d.size < 0:
		return nil, invalid("input %q: bytes follow the JSON, but it has no binary_data_size", c.input.name)
	case len(more) > 0:
		return nil, invalid("input %q: binary_data_size %d: more bytes follow the JSON", c.input.name, d.size)
	}
	return c, in.close()
}

// jsonCopies is the memory of an answer as JSON as a multiple of its raw size: a number of four bytes takes up to 14, in a buffer that may
// double.
const jsonCopies = 8

// restDecoder reads the JSON of a request token by token. Names are case-sensitive; unknown members are skipped.
type restDecoder struct {
	*jsontext.Decoder
	*restCall
	body   *body
	server *Server

	inputs   int
	known    bool // whether the parameters were read
	haveData bool
	late     io.Reader // text of the input's data if it came before name, datatype and shape
	size     int       // bytes of the binary tensor; -1 if there is none
	scratch  []byte    // for one value
}

func (d *restDecoder) next() (jsontext.Token, error) {
	d.body.one()
	return d.ReadToken()
}

func (d *restDecoder) peek() jsontext.Kind {
	d.body.one()
	return d.PeekKind()
}

// object reads an object, or null, which stands for an empty one. It calls member with each name to read the value; member returns
// errUnknown for names that the protocol does not have, and object skips their values.
func (d *restDecoder) object(what string, member func(name string) error) error {
	t, err := d.next()
	if err != nil || t.Kind() == 'n' {
		return err
	}
	if t.Kind() != '{' {
		return invalid("%s: must be an object", what)
	}
	for n := 0; ; n++ {
		t, err := d.next()
		if err != nil || t.Kind() == '}' {
			return err
		}
		if n == mostMembers {
			return invalid("%s: more than %d members", what, mostMembers)
		}
		name := t.String()
		err = member(name)
		if errors.Is(err, errUnknown) {
			d.body.one()
			at := d.InputOffset()
			if err = d.SkipValue(); errors.Is(err, errLongValue) || d.InputOffset() > at+longestValue {
				err = invalid("body: %q is not of the protocol, and long", name)
			}
		}
		if err != nil {
			return err
		}
	}
}

var errUnknown = errors.New("a member that the protocol does not have")

// into decodes the next value, of at most longestValue bytes, into to; null leaves to unchanged. what names the value and must its type,
// for the error.
func (d *restDecoder) into(to any, what, must string) error {
	d.body.one()
	err := json.UnmarshalDecode(d.Decoder, to)
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONKind != 0 {
		err = invalid("%s: must be %s", what, must)
	}
	return err
}

// parameters reads an object of parameters and calls set for each; values are bool, float64 or string.
func (d *restDecoder) parameters(what string, set func(name string, value any) error) error {
	var all map[string]any
	if err := d.into(&all, what, "an object"); err != nil {
		return err
	}
	return setAll(all, what, set)
}

func setAll(all map[string]any, what string, set func(name string, value any) error) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch all[name].(type) {
		case bool, float64, string:
		default:
			return invalid("%s: %q: must be a number, a text, true or false", what, name)
		}
		if err := set(name, all[name]); err != nil {
			return err
		}
	}
	return nil
}

func (d *restDecoder) readRequest() error {
	err := d.object("body", func(name string) error {
		switch name {
		case "id":
			return d.into(&d.id, "id", "a text")
		case "parameters":
			d.known = true
			return d.parameters("parameters", func(name string, value any) error {
				if name == "binary_data_output" {
					return setBool(&d.binary, name, value)
				}
				return d.server.set(&d.request.parameters, name, value)
			})
		case "inputs":
			return d.readInputs()
		case "outputs":
			return d.readOutputs()
		}
		return errUnknown
	})
	if err == nil && d.inputs != 1 {
		return invalid("%d inputs, must be one: bitboards, planes or moves", d.inputs)
	}
	return err
}

func (d *restDecoder) readOutputs() error {
	var all []struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	}
	if err := d.into(&all, "outputs", "a list of objects with name and parameters"); err != nil {
		return err
	}
	if len(all) > mostOutputs {
		return invalid("outputs: more than %d", mostOutputs)
	}
	for _, o := range all {
		d.outputs = append(d.outputs, o.Name)
		if err := setAll(o.Parameters, "outputs: parameters", func(name string, value any) error {
			isBinary, ok := value.(bool)
			if !ok || name != "binary_data" {
				return invalid("output %q: parameter %q: %v, must be binary_data with true or false", o.Name, name, value)
			}
			d.binaryFor[o.Name] = isBinary
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// readInputs reads the list of inputs; null stands for an empty one.
func (d *restDecoder) readInputs() error {
	t, err := d.next()
	if err != nil || t.Kind() == 'n' {
		return err
	}
	if t.Kind() != '[' {
		return invalid("inputs: must be a list")
	}
	for d.peek() != ']' {
		if d.inputs++; d.inputs > mostInputs {
			return invalid("inputs: more than %d", mostInputs)
		}
		if err := d.readInput(); err != nil {
			return err
		}
	}
	_, err = d.next()
	return err
}

func (d *restDecoder) readInput() error {
	in := &d.input
	err := d.object("inputs", func(name string) error {
		switch name {
		case "name":
			return d.into(&in.name, "inputs: name", "a text")
		case "datatype":
			return d.into(&in.datatype, "inputs: datatype", "a text")
		case "shape":
			err := d.into(&in.shape, "inputs: shape", "a list of whole numbers")
			if len(in.shape) > mostDimensions {
				return invalid("inputs: shape: more than %d", mostDimensions)
			}
			return err
		case "parameters":
			return d.parameters("inputs: parameters", d.inputParameter)
		case "data":
			return d.data()
		}
		return errUnknown
	})
	if err != nil || d.inputs > 1 {
		return err
	}
	switch {
	case d.haveData && d.size >= 0:
		return invalid("input %q: both data and binary_data_size", in.name)
	case !d.haveData && d.size < 0:
		return invalid("input %q: neither data nor a binary tensor", in.name)
	case d.late != nil:
		return d.values(jsontext.NewDecoder(&polite{in: d.late}).ReadToken)
	}
	return nil
}

func (d *restDecoder) inputParameter(name string, value any) error {
	n, ok := value.(float64)
	if name != "binary_data_size" || !ok || n != math.Trunc(n) || n < 0 || n > float64(d.body.limit) {
		return invalid("input %q: parameter %q: %v, must be binary_data_size with a number of bytes of the body", d.input.name, name, value)
	}
	d.size = int(n)
	return nil
}

// data reads the input's values. If name, datatype or shape are still unknown, it keeps the values' text as d.late.
func (d *restDecoder) data() error {
	d.haveData = true
	if in := &d.input; in.name != "" && in.datatype != "" && in.shape != nil {
		return d.values(d.next)
	}
	d.peek() // this reads the colon, which stays in the buffer
	depth, ahead := d.StackDepth(), d.UnreadBuffer()
	first := bytes.TrimLeft(ahead, " \t\r\n:")
	begin := d.InputOffset() + int64(len(ahead)-len(first))
	text := net.Buffers{bytes.Clone(first)}
	if err := d.take(len(first)); err != nil {
		return err
	}
	d.body.text = &text
	defer func() { d.body.text = nil }()
	for {
		t, err := d.next()
		if err != nil {
			return err
		}
		if t.Kind() == '{' { // the decoder would keep its names in memory
			return invalid("inputs: data: must be a list of values")
		}
		if d.StackDepth() == depth {
			break
		}
	}
	d.late = io.LimitReader(&text, d.InputOffset()-begin)
	return nil
}

// foresee refuses a request before its values are read, if it would be refused later for the number of rows in its shape.
func (d *restDecoder) foresee() error {
	if len(d.input.shape) == 0 {
		return nil // rows returns the error
	}
	if err := d.input.few(d.server.config.Limits.Batch); err != nil {
		return err
	}
	return d.server.foresee(d.request, int(d.input.shape[0]), d.known)
}

// values converts a flat or nested list to raw values.
func (d *restDecoder) values(next func() (jsontext.Token, error)) error {
	in := &d.input
	n, err := in.values(d.body.limit) // each value takes at least one byte of the body
	if err == nil {
		err = d.foresee()
	}
	if err != nil {
		return err
	}
	count := 0
	for depth := 0; ; {
		t, err := next()
		if err != nil {
			return err
		}
		switch t.Kind() {
		case '[':
			if depth++; depth > mostDimensions {
				return invalid("input %q: data: lists in lists, more than %d deep", in.name, mostDimensions)
			}
			continue
		case ']':
			depth--
		default:
			if count++; count > n {
				return invalid("input %q: data has more values than the %d of shape %v", in.name, n, in.shape)
			}
			if err := d.value(t); err != nil {
				return err
			}
		}
		if depth == 0 {
			break
		}
	}
	if count != n {
		return invalid("input %q: data has %d values, shape %v wants %d", in.name, count, in.shape, n)
	}
	return nil
}

// value appends one value to raw.
func (d *restDecoder) value(t jsontext.Token) error {
	in, raw, wrong := &d.input, d.scratch[:0], error(nil)
	switch kind := t.Kind(); {
	case in.datatype == bytesType && kind == '"':
		text := t.String()
		if len(text) > longestValue {
			return errLongValue
		}
		raw = appendBytes(raw, text)
	case in.datatype == uint64Type && kind == '0':
		var x uint64
		x, wrong = t.Uint()
		raw = binary.LittleEndian.AppendUint64(raw, x)
	case in.datatype == floatType && kind == '0':
		var x float32
		x, wrong = t.Float32()
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	case inputTypes[in.name] != in.datatype: // rows returns the error
		return nil
	default:
		wrong = errors.ErrUnsupported
	}
	if wrong != nil {
		return invalid("input %q: data: %s is no value of %s", in.name, t.String(), in.datatype)
	}
	d.scratch = raw
	to, err := d.grow(in.raw, len(raw))
	if err == nil {
		in.raw = append(to, raw...)
	}
	return err
}
