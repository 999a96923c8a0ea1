package service

import (
	"context"
	"runtime"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/tap"

	"github.com/evald/evald/cmd/evald/kserve"
)

// manyCalls is how many calls begin as they come.
const manyCalls = 64

// idleTime is how long a connection of gRPC without a call is kept.
const idleTime = 5 * time.Minute

// grpcService answers the protocol's calls.
type grpcService struct {
	kserve.UnimplementedGRPCInferenceServiceServer
	*Server
}

func (s *Server) grpcServer() *grpc.Server {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.config.Limits.Body),
		grpc.MaxConcurrentStreams(uint32(s.config.Limits.Streams)),
		grpc.ConnectionTimeout(s.config.Limits.Receive),
		grpc.MaxHeaderListSize(16 << 10),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionIdle: idleTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(s.admit),
		grpc.UnknownServiceHandler(s.streaming(noCall, false)),
	}
	if s.config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.config.TLS)))
	}
	if s.config.Traces != nil {
		options = append(options, grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(s.config.Traces), otelgrpc.WithPropagators(propagator))))
	}
	g := grpc.NewServer(options...)
	counted := grpcCalls{g, s}
	kserve.RegisterGRPCInferenceServiceServer(counted, grpcService{Server: s})
	healthpb.RegisterHealthServer(counted, s.health)
	reflection.Register(counted)
	return g
}

// admit looks at a call before its message is read. It refuses a wrong token, and sets the call's deadline; a stream has none
// of its own.
func (s *Server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	e := s.grpcEntry(ctx, info)
	err := e.account.conn.admits(e.group)
	if err == nil {
		e.token, err = s.config.Tokens.allowGRPC(info.FullMethodName, info.Header)
	}
	if err != nil {
		s.loggedGRPC(e, err)
		return nil, err
	}
	ctx = e.context(ctx)
	var limited context.Context
	switch info.FullMethodName {
	case kserve.GRPCInferenceService_ModelStreamInfer_FullMethodName:
		return ctx, nil
	case healthpb.Health_Watch_FullMethodName, reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:
		limited, e.cancel = context.WithCancel(ctx)
		unhook := context.AfterFunc(s.over, e.cancel)
		context.AfterFunc(ctx, func() { unhook(); e.cancel() })
	default:
		limited, e.cancel = context.WithTimeout(ctx, s.config.Limits.Receive+s.config.Limits.Timeout)
		// Others go on first if there are many calls. Without that, hundreds of calls that come at once on a connection are all
		// begun before the next client's turn. A twelfth fewer calls are answered if each one does so.
		if s.calls.Add(1) > manyCalls {
			runtime.Gosched()
		}
		context.AfterFunc(ctx, func() { s.calls.Add(-1); e.cancel() }) // ctx ends with the call
	}
	return limited, nil
}

// setHealth tells the health protocol whether the server is ready. s.mu is held, or nobody shares s yet.
func (s *Server) setHealth(ready bool) {
	to := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		to = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range []string{"", kserve.GRPCInferenceService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, to)
	}
}

func (s grpcService) ServerLive(context.Context, *kserve.ServerLiveRequest) (*kserve.ServerLiveResponse, error) {
	return &kserve.ServerLiveResponse{Live: true}, nil
}

func (s grpcService) ServerReady(context.Context, *kserve.ServerReadyRequest) (*kserve.ServerReadyResponse, error) {
	return &kserve.ServerReadyResponse{Ready: s.Ready()}, nil
}

func (s grpcService) ModelReady(_ context.Context, r *kserve.ModelReadyRequest) (*kserve.ModelReadyResponse, error) {
	_, err := s.models.find(r.Name, r.Version)
	return &kserve.ModelReadyResponse{Ready: err == nil && s.Ready()}, nil
}

func (s grpcService) ServerMetadata(context.Context, *kserve.ServerMetadataRequest) (*kserve.ServerMetadataResponse, error) {
	return s.serverMetadata(), nil
}

func (s grpcService) ModelMetadata(_ context.Context, r *kserve.ModelMetadataRequest) (*kserve.ModelMetadataResponse, error) {
	return s.modelMetadata(r.Name, r.Version)
}

func (s grpcService) ModelConfig(_ context.Context, r *kserve.ModelConfigRequest) (*kserve.ModelConfigResponse, error) {
	c, err := s.modelConfig(r.Name, r.Version)
	return &kserve.ModelConfigResponse{Config: c}, err
}

func (s grpcService) ModelStatistics(_ context.Context, r *kserve.ModelStatisticsRequest) (*kserve.ModelStatisticsResponse, error) {
	return s.modelStatistics(r.Name, r.Version)
}

func (s grpcService) RepositoryIndex(_ context.Context, r *kserve.RepositoryIndexRequest) (*kserve.RepositoryIndexResponse, error) {
	return s.repositoryIndex(r.Ready)
}

func (s grpcService) RepositoryModelLoad(_ context.Context, r *kserve.RepositoryModelLoadRequest) (*kserve.RepositoryModelLoadResponse, error) {
	return &kserve.RepositoryModelLoadResponse{}, s.repositoryLoad(r.ModelName, len(r.Parameters))
}

func (s grpcService) RepositoryModelUnload(_ context.Context, r *kserve.RepositoryModelUnloadRequest) (*kserve.RepositoryModelUnloadResponse, error) {
	return &kserve.RepositoryModelUnloadResponse{}, s.repositoryUnload(r.ModelName)
}

func (s grpcService) ModelInfer(ctx context.Context, r *kserve.ModelInferRequest) (*kserve.ModelInferResponse, error) {
	c, err := s.grpcCall(r)
	c.paid = entryOf(ctx).paid
	if err != nil {
		return nil, err
	}
	a, err := s.infer(ctx, &c)
	if err != nil {
		return nil, err
	}
	entryOf(ctx).answer = a
	return a.message(c.id), nil
}

// grpcCall makes a call of a gRPC request. The values of its input are not copied.
func (s *Server) grpcCall(r *kserve.ModelInferRequest) (call, error) {
	c := call{model: r.ModelName, version: r.ModelVersion, id: r.Id, began: time.Now()}
	for name, p := range r.Parameters {
		if err := s.set(&c.parameters, name, parameter(p)); err != nil {
			return c, err
		}
	}
	if len(r.Inputs) != 1 {
		return c, invalid("%d inputs, must be one: bitboards, planes or moves", len(r.Inputs))
	}
	in := r.Inputs[0]
	c.input = tensor{name: in.Name, datatype: in.Datatype, shape: in.Shape}
	switch len(r.RawInputContents) {
	case 0:
		if err := c.input.fromContents(in.Contents); err != nil {
			return c, err
		}
	case 1:
		if in.Contents != nil {
			return c, invalid("input %q: both contents and raw_input_contents", in.Name)
		}
		c.input.raw = r.RawInputContents[0]
	default:
		return c, invalid("%d raw_input_contents for one input", len(r.RawInputContents))
	}
	for _, o := range r.Outputs {
		if len(o.Parameters) > 0 {
			for name := range o.Parameters {
				if name != "binary_data" {
					return c, refuse(codes.Unimplemented, "output %q: parameter %q", o.Name, name)
				}
			}
		}
		c.outputs = append(c.outputs, o.Name)
	}
	return c, nil
}

func parameter(p *kserve.InferParameter) any {
	switch v := p.GetParameterChoice().(type) {
	case *kserve.InferParameter_BoolParam:
		return v.BoolParam
	case *kserve.InferParameter_Int64Param:
		return v.Int64Param
	case *kserve.InferParameter_StringParam:
		return v.StringParam
	case *kserve.InferParameter_DoubleParam:
		return v.DoubleParam
	case *kserve.InferParameter_Uint64Param:
		return v.Uint64Param
	}
	return nil
}

// message is the answer as gRPC has it. It has the answer's memory, and is written after the call has ended.
func (a *answer) message(id string) *kserve.ModelInferResponse {
	r := &kserve.ModelInferResponse{ModelName: a.model, ModelVersion: a.version, Id: id}
	tensors := make([]kserve.ModelInferResponse_InferOutputTensor, len(a.outputs))
	r.Outputs = make([]*kserve.ModelInferResponse_InferOutputTensor, len(a.outputs))
	r.RawOutputContents = make([][]byte, len(a.outputs))
	for i := range a.outputs {
		o := &a.outputs[i]
		tensors[i].Name, tensors[i].Datatype, tensors[i].Shape = o.name, o.datatype, o.shape
		r.Outputs[i], r.RawOutputContents[i] = &tensors[i], o.raw
	}
	return r
}
