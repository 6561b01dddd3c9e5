package observe

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/desired"
)

// scheme names the kinds of the objects that a cluster consists of: an informer's objects do not carry theirs.
var scheme = clientgoscheme.Scheme

// eachItem hands out copies of a list's items: the informer's own must not be changed.
func eachItem(list client.ObjectList, f func(desired.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		f(o.DeepCopyObject().(desired.Object))
		return nil
	})
}
