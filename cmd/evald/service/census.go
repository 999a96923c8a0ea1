package service

import "google.golang.org/protobuf/encoding/protowire"

// census reads an inference request in the form in which it was sent. It counts the parts of the request, and the bytes that
// they will take when they are decoded.
type census struct {
	rows                                     int // that a request may have at most
	bytes                                    int // that the request takes when it is decoded
	inputs, outputs, parameters, raw, values int
}

// longestText is how long a name, a parameter or an id of a request may be, in bytes.
const longestText = 4 << 10

// fields calls f for each field of a message. v is the value of a field that has a length, else nil.
func fields(b []byte, f func(n protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		n, kind, k := protowire.ConsumeTag(b)
		if k < 0 {
			return invalid("the message cannot be read: %s", protowire.ParseError(k).Error())
		}
		b = b[k:]
		var v []byte
		if kind == protowire.BytesType {
			v, k = protowire.ConsumeBytes(b)
			if v == nil {
				v = []byte{}
			}
		} else {
			k = protowire.ConsumeFieldValue(n, kind, b)
		}
		if k < 0 {
			return invalid("the message cannot be read: %s", protowire.ParseError(k).Error())
		}
		b = b[k:]
		if err := f(n, v); err != nil {
			return err
		}
	}
	return nil
}

// add counts one more part, and the bytes that it takes. A request that has more than most of them is refused.
func (c *census) add(what string, count *int, most, bytes int) error {
	if *count++; *count > most {
		return invalid("more than %d %s", most, what)
	}
	c.bytes += bytes
	return nil
}

func (c *census) text(what string, v []byte) error {
	if len(v) > longestText {
		return invalid("%s has %d bytes, must be at most %d", what, len(v), longestText)
	}
	c.bytes += len(v)
	return nil
}

func (c *census) request(b []byte) error {
	c.bytes += 512
	return fields(b, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			return c.text("model_name", v)
		case 2:
			return c.text("model_version", v)
		case 3:
			return c.text("id", v)
		case 4:
			return c.parameter(v)
		case 5:
			if err := c.add("inputs", &c.inputs, mostInputs, 256); err != nil {
				return err
			}
			return c.tensor(v, true)
		case 6:
			if err := c.add("outputs", &c.outputs, mostOutputs, 256); err != nil {
				return err
			}
			return c.tensor(v, false)
		case 7:
			return c.add("raw_input_contents", &c.raw, mostInputs, 32+len(v))
		}
		return c.unknown(v)
	})
}

// tensor counts an input, or an output that is asked for.
func (c *census) tensor(b []byte, input bool) error {
	dimensions := 0
	return fields(b, func(n protowire.Number, v []byte) error {
		switch {
		case n == 1:
			return c.text("a tensor's name", v)
		case n == 2 && input:
			return c.text("a datatype", v)
		case n == 4 || n == 2:
			return c.parameter(v)
		case n == 3 && input:
			// A dimension takes a byte or more, packed or not.
			if dimensions += max(len(v), 1); dimensions > 10*mostDimensions {
				return invalid("a shape has more than %d dimensions", mostDimensions)
			}
			c.bytes += 16 * max(len(v), 1)
			return nil
		case n == 5 && input:
			return c.contents(v)
		}
		return c.unknown(v)
	})
}

func (c *census) parameter(b []byte) error {
	if err := c.add("parameters", &c.parameters, mostParameters, 256); err != nil {
		return err
	}
	return c.text("a parameter", b)
}

// contents counts values in typed lists. Texts are counted one by one. Each byte of a packed list of numbers counts as a
// number of eight bytes, which is the most that it can become.
func (c *census) contents(b []byte) error {
	return fields(b, func(n protowire.Number, v []byte) error {
		switch {
		case n == 8: // bytes_contents
			return c.add("values of bytes_contents", &c.values, c.rows, 48+len(v))
		case n < 8 && v != nil:
			c.bytes += 8 * len(v)
		case n < 8:
			c.bytes += 16
		default:
			return c.unknown(v)
		}
		return nil
	})
}

// unknown counts a field that the protocol does not have. The decoder keeps it as it is.
func (c *census) unknown(v []byte) error {
	c.bytes += 16 + 2*len(v)
	return nil
}
