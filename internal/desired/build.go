// Package desired builds the Kubernetes objects that one RabbitMQ cluster consists of. It is pure: the objects are a
// function of one value, so that equal input gives equal objects, byte for byte.
package desired

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/tuning"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Input is all that the objects depend on.
type Input struct {
	Cluster      *v1alpha1.WorkloadCluster
	Capabilities broker.Capabilities
	Image        string
	Tuning       tuning.Settings
	Secrets      Secrets
	// Claims is the claim template for now (Growth.Template); nil means what the spec says.
	Claims *ClaimTemplate
	// Build tells one build of Warren from another; with "" nothing is remembered of it, and no update waits.
	Build string
	// SizeAsMade is the size of the volumes before they grew; nil means what the spec says.
	SizeAsMade *resource.Quantity
	// Nodes that there are to be now, where that is not what the spec says: nodes leave one by one. nil is what the spec says.
	Nodes *int32
}

func (in Input) nodes() int32 {
	if in.Nodes != nil {
		return *in.Nodes
	}
	return in.Cluster.Spec.Replicas
}

// Secrets are made once per cluster and carried over unchanged from then on.
type Secrets struct {
	ErlangCookie  string
	AdminPassword string
}

// AdminUser is the name of the administrator whom every new cluster has.
const AdminUser = "warren"

// Build returns the objects in the order in which they are to be applied: what pods need comes before the pods.
func Build(in Input) []Object {
	objects := []Object{serviceAccount(in)}
	if in.Capabilities.PeerDiscoveryNeedsAPI {
		objects = append(objects, role(in), roleBinding(in))
	}
	objects = append(objects,
		cookieSecret(in),
		adminSecret(in),
		configMap(in),
		nodesService(in),
		clientService(in),
	)
	if in.Cluster.Spec.Replicas > 1 {
		objects = append(objects, disruptionBudget(in))
	}
	return append(objects, statefulSet(in))
}
