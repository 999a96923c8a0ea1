package service

import (
	"context"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/tap"

	"github.com/evald/evald/cmd/evald/kserve"
)

// manyCalls is the number of concurrent calls above which a new call first yields to other goroutines.
const manyCalls = 64

// grpcService implements the calls of the protocol.
type grpcService struct {
	kserve.UnimplementedGRPCInferenceServiceServer
	*Server
}

func (s *Server) grpcServer() *grpc.Server {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.config.Limits.Body),
		grpc.MaxConcurrentStreams(uint32(s.config.Limits.Streams)),
		grpc.ConnectionTimeout(s.config.Limits.Headers),
		grpc.MaxHeaderListSize(mostGRPCHeaders),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionIdle: s.config.Limits.Idle, MaxConnectionAge: s.config.Limits.Age}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.RPCDecompressor(gunzip{s.config.Limits.Body}), //lint:ignore SA1019 the replacement registers compressors for the whole program
		grpc.InTapHandle(s.begin),
		grpc.UnknownServiceHandler(s.streaming(noCall, false)),
	}
	creds := insecure.NewCredentials()
	if encrypted := s.tlsConfig("h2"); encrypted != nil {
		creds = credentials.NewTLS(encrypted)
	}
	options = append(options, grpc.Creds(watchedCredentials{creds, s}))
	if s.config.Traces != nil {
		options = append(options, grpc.StatsHandler(s.tracedCalls()))
	}
	g := grpc.NewServer(options...)
	counted := grpcCalls{g, s}
	kserve.RegisterGRPCInferenceServiceServer(counted, grpcService{Server: s})
	healthpb.RegisterHealthServer(counted, s.health)
	reflection.Register(counted)
	return g
}

// begin creates the request of a call before its message is read, and sets the call's deadline. A stream has no deadline.
func (s *Server) begin(ctx context.Context, info *tap.Info) (context.Context, error) {
	from, _ := peer.FromContext(ctx)
	r := &request{conn: connectionOf(from.Addr), protocol: "gRPC", method: info.FullMethodName, began: time.Now(), group: grpcGroup(info.FullMethodName)}
	r.came(s.config.Proxies, info.Header.Get("x-forwarded-for"))
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
		r.tls, r.shown = &info.State, holder(&info.State)
	}
	token := ""
	if values := info.Header.Get("authorization"); len(values) == 1 {
		token = bearer(values[0])
	}
	size := headersOf(info.FullMethodName, info.Header)
	err := s.takeHeaders(r, size)
	if err == nil {
		err = s.arrive(r, token)
	}
	if err != nil {
		s.loggedGRPC(r, err)
		r.end()
		return nil, err
	}
	if held := int(r.bytes); held > 0 { // until the call ends, also if its method is never called
		r.bytes = 0
		context.AfterFunc(ctx, func() { r.conn.of.memory.force(r.from(), -held) })
	}
	ctx = r.context(ctx)
	var limited context.Context
	switch info.FullMethodName {
	case kserve.GRPCInferenceService_ModelStreamInfer_FullMethodName:
		return ctx, nil
	case healthpb.Health_Watch_FullMethodName, reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:
		limited, r.slot.cancel = context.WithCancel(ctx)
		unhook := context.AfterFunc(s.over, r.slot.cancel)
		context.AfterFunc(ctx, func() { unhook(); r.slot.cancel() })
	default:
		limited, r.slot.cancel = context.WithTimeout(ctx, s.config.Limits.Receive+s.config.Limits.Timeout)
		// With many calls, other goroutines run first. Otherwise, if hundreds of calls arrive at once on a connection, all of them
		// begin before the next client's turn. If each call yielded, the server would answer a twelfth fewer calls.
		if s.calls.Add(1) > manyCalls {
			runtime.Gosched()
		}
		context.AfterFunc(ctx, func() { s.calls.Add(-1); r.slot.cancel() }) // ctx ends with the call
	}
	return limited, nil
}

// grpcCalls registers services and wraps their methods, so that their calls are counted and logged. Interceptors would not see messages
// that are too long, and a stats.Handler would make each call a tenth more expensive.
type grpcCalls struct {
	*grpc.Server
	service *Server
}

func (g grpcCalls) RegisterService(desc *grpc.ServiceDesc, impl any) {
	counted := *desc
	counted.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		g.service.methods["/"+desc.ServiceName+"/"+method.MethodName] = method.MethodName
		counted.Methods[i] = grpc.MethodDesc{MethodName: method.MethodName, Handler: g.service.unary(method.Handler)}
	}
	counted.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, stream := range desc.Streams {
		g.service.methods["/"+desc.ServiceName+"/"+stream.StreamName] = stream.StreamName
		counted.Streams[i] = stream
		counted.Streams[i].Handler = g.service.streaming(stream.Handler, stream.ClientStreams)
	}
	g.Server.RegisterService(&counted, impl)
}

// accept reserves cost bytes for a call, among them those for a usual message.
func (r *request) accept(ctx context.Context, cost int) error {
	if err := r.take(cost); err != nil {
		return err
	}
	r.advance = usualMessage
	return grpc.SetSendCompressor(ctx, encoding.Identity) // so that the bytes counted are the bytes sent
}

// ended logs a gRPC call and releases its memory. err is nil or the call's status.
func (s *Server) ended(r *request, err error) {
	s.loggedGRPC(r, err)
	r.end()
}

// unary wraps a method with one request message and one answer.
func (s *Server) unary(next grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, read func(any) error, i grpc.UnaryServerInterceptor) (answer any, err error) {
		r := requestOf(ctx)
		defer func() { s.ended(r, err) }()
		if err := r.accept(ctx, callCost); err != nil {
			return nil, err
		}
		end := func() {}
		defer func() { end() }()
		answer, err = next(srv, ctx, func(message any) error {
			err := s.receive(ctx, r, read, message)
			end = r.conn.begin()
			return err
		}, i)
		if err != nil {
			return nil, err
		}
		s.knows(r)
		return outgoing{answer, r}, nil
	}
}

// receive waits for a slot, and reads and decodes a message while the request holds it.
func (s *Server) receive(ctx context.Context, r *request, read func(any) error, message any) error {
	slots := s.reading
	if r.group == healthCalls {
		slots = s.readingHealth
	}
	if err := slots.acquire(ctx, r); err != nil {
		return err
	}
	defer slots.release(r)
	var f frame
	if err := read(&f); err != nil {
		return r.notRead(err)
	}
	defer f.free()
	err := s.decode(&f, message, r)
	r.describe(message)
	return err
}

// describe copies the model's name and the id from a message, for the log.
func (r *request) describe(message any) {
	switch m := message.(type) {
	case interface{ GetModelName() string }: // messages of inference and of the repository
		r.model = m.GetModelName()
	case interface{ GetName() string }: // messages of metadata
		r.model = m.GetName()
	}
	if m, ok := message.(interface{ GetId() string }); ok {
		r.id = m.GetId()
	}
}

// noCall answers calls of unknown methods.
func noCall(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	return refuse(codes.Unimplemented, "%s is no call of the protocol", method)
}

// setHealth sets the health protocol's answer. s.mu is held, or s is not shared yet.
func (s *Server) setHealth(ready bool) {
	to := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		to = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range []string{"", kserve.GRPCInferenceService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, to)
	}
}

func (s grpcService) ModelInfer(ctx context.Context, m *kserve.ModelInferRequest) (*kserve.ModelInferResponse, error) {
	r := requestOf(ctx)
	r.asked = time.Now()
	if err := s.readMessage(r, m); err != nil {
		return nil, err
	}
	if err := s.infer(ctx, r); err != nil {
		return nil, err
	}
	return r.message(), nil
}

// readMessage copies a message's parameters, input and outputs into the request. The values of the input are not copied.
func (s *Server) readMessage(r *request, m *kserve.ModelInferRequest) error {
	r.model, r.version, r.id = m.ModelName, m.ModelVersion, m.Id
	for name, p := range m.Parameters {
		if err := s.set(&r.parameters, name, parameter(p)); err != nil {
			return err
		}
	}
	if len(m.Id) > longestValue { // the answer repeats it
		return invalid("id has %d bytes, must be at most %d", len(m.Id), longestValue)
	}
	if len(m.Inputs) != 1 {
		return invalid("%d inputs, must be one: bitboards, planes or moves", len(m.Inputs))
	}
	in := m.Inputs[0]
	r.input = tensor{name: in.Name, datatype: in.Datatype, shape: in.Shape}
	switch len(m.RawInputContents) {
	case 0:
		if err := r.input.fromContents(in.Contents); err != nil {
			return err
		}
	case 1:
		if in.Contents != nil {
			return invalid("input %q: both contents and raw_input_contents", in.Name)
		}
		r.input.raw = m.RawInputContents[0]
	default:
		return invalid("%d raw_input_contents for one input", len(m.RawInputContents))
	}
	for _, o := range m.Outputs {
		for name := range o.Parameters {
			if name != "binary_data" {
				return refuse(codes.Unimplemented, "output %q: parameter %q", o.Name, name)
			}
		}
		r.outputs = append(r.outputs, o.Name)
	}
	return nil
}

// parameter returns a parameter's value: a bool, int64, uint64, float64 or string; nil if it has none.
func parameter(p *kserve.InferParameter) any {
	m := p.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().Get(0)); f != nil {
		return m.Get(f).Interface()
	}
	return nil
}

// message returns the answer as a gRPC message, which shares the answer's memory. gRPC writes it after the method has returned.
func (r *request) message() *kserve.ModelInferResponse {
	n := len(r.answer.outputs)
	m := &kserve.ModelInferResponse{
		ModelName: r.model, ModelVersion: r.answer.version, Id: r.id,
		Outputs: make([]*kserve.ModelInferResponse_InferOutputTensor, n), RawOutputContents: make([][]byte, n),
	}
	tensors := make([]kserve.ModelInferResponse_InferOutputTensor, n)
	for i := range r.answer.outputs {
		o := &r.answer.outputs[i]
		tensors[i].Name, tensors[i].Datatype, tensors[i].Shape = o.name, o.datatype, o.shape
		m.Outputs[i], m.RawOutputContents[i] = &tensors[i], o.raw
	}
	if r.rule != "" {
		m.Parameters = map[string]*kserve.InferParameter{ruleParameter: {ParameterChoice: &kserve.InferParameter_StringParam{StringParam: r.rule}}}
	}
	return m
}
