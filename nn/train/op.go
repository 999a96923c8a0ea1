package train

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// op is an operation that this package adds to gorgonia's graph, on float32 tensors and scalars of known shapes. It is a pure function of
// its inputs. gorgonia owns the result's memory and reuses it in the next run, so that a step allocates next to nothing.
type op struct {
	name  string       // includes the parameters, because gorgonia merges nodes with the same name and inputs
	in    []int        // dimensions of the inputs; 0 is a scalar
	shape tensor.Shape // of the result; empty is a scalar

	// run computes the result; a scalar is a slice of one. It must write all of dst.
	run func(dst []float32, in [][]float32)

	// diff returns the gradients of the inputs for which wrt is set, and nil for the others. It is nil for operations that compute
	// gradients.
	diff func(in gorgonia.Nodes, out, grad *gorgonia.Node) gorgonia.Nodes
	wrt  []bool
}

// apply adds the operation to the graph of its inputs. It panics if shapes do not fit, which a validated configuration excludes.
func (o *op) apply(in ...*gorgonia.Node) *gorgonia.Node {
	for _, n := range in {
		o.in = append(o.in, len(n.Shape()))
	}
	return must(gorgonia.ApplyOp(o, in...))
}

func must(n *gorgonia.Node, err error) *gorgonia.Node {
	if err != nil {
		panic(fmt.Sprintf("train: graph: %v", err))
	}
	return n
}

// Type returns the operation's signature. It makes a new one at each call, because gorgonia modifies it.
func (o *op) Type() hm.Type {
	types := make([]hm.Type, 0, len(o.in)+1)
	for _, d := range append(o.in[:len(o.in):len(o.in)], len(o.shape)) {
		if d == 0 {
			types = append(types, tensor.Float32)
		} else {
			types = append(types, gorgonia.TensorType{Dims: d, Of: tensor.Float32})
		}
	}
	return hm.NewFnType(types...)
}

func (o *op) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) { return o.shape.Clone(), nil }

// Do computes the result in the first run, when there is no memory for it yet.
func (o *op) Do(inputs ...gorgonia.Value) (gorgonia.Value, error) {
	if len(o.shape) == 0 {
		return o.UsePreallocDo(gorgonia.NewF32(0), inputs...)
	}
	return o.UsePreallocDo(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(o.shape...)), inputs...)
}

// UsePreallocDo computes the result in all later runs.
func (o *op) UsePreallocDo(result gorgonia.Value, inputs ...gorgonia.Value) (gorgonia.Value, error) {
	in := make([][]float32, len(inputs))
	for i, v := range inputs {
		in[i] = floats(v)
	}
	if scalar, ok := result.(*gorgonia.F32); ok {
		var value [1]float32
		o.run(value[:], in)
		*scalar = gorgonia.F32(value[0])
		return scalar, nil
	}
	o.run(floats(result), in)
	return result, nil
}

// floats returns the numbers of a tensor, which share its memory, or a copy of a scalar.
func floats(v gorgonia.Value) []float32 {
	switch v := v.(type) {
	case *tensor.Dense:
		return v.Float32s()
	case *gorgonia.F32:
		return []float32{float32(*v)}
	}
	panic(fmt.Sprintf("train: a value in the graph is a %T, want float32", v))
}

func (o *op) DiffWRT(int) []bool { return o.wrt }

func (o *op) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.diff == nil {
		return nil, fmt.Errorf("train: %s has no derivative", o.name)
	}
	return o.diff(in, out, grad), nil
}

func (o *op) Arity() int            { return len(o.in) }
func (o *op) ReturnsPtr() bool      { return true }
func (o *op) CallsExtern() bool     { return false }
func (o *op) OverwritesInput() int  { return -1 }
func (o *op) String() string        { return o.name }
func (o *op) WriteHash(h hash.Hash) { fmt.Fprint(h, o.name, o.in, o.shape) }

func (o *op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}
