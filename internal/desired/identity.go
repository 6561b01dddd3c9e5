package desired

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Identity is what is left of the Secrets that make a cluster's nodes one cluster, and what depends on them.
type Identity struct {
	// Cookie and Admin are the Secrets as they are; nil if absent.
	Cookie, Admin *corev1.Secret
	// HasNodes: there are volumes or a StatefulSet, which hold or use what the Secrets say.
	HasNodes bool
	// Leaving: those belong to an earlier cluster and are about to be deleted.
	Leaving bool
}

// CarryOver answers the secrets to go on with. fresh are new random ones, used only for a cluster that has no nodes yet:
// nodes that run refuse peers with another cookie, and volumes keep the password with which they were made.
func (i Identity) CarryOver(cluster string, fresh Secrets) (Secrets, string) {
	cookie, admin := value(i.Cookie, KeyErlangCookie), value(i.Admin, KeyAdminPassword)
	if i.Leaving && (cookie == "" || admin == "") {
		return Secrets{}, "waiting until the nodes and volumes that an earlier WorkloadCluster of this name left are deleted"
	}
	if i.HasNodes {
		const help = "; restore it from a backup, or delete the WorkloadCluster and its volumes to start anew. Nothing is changed until then"
		if cookie == "" {
			return Secrets{}, fmt.Sprintf("Secret %s with key %s is missing, but nodes or volumes that depend on it exist%s", CookieSecretName(cluster), KeyErlangCookie, help)
		}
		if admin == "" {
			return Secrets{}, fmt.Sprintf("Secret %s with key %s is missing, but nodes or volumes that depend on it exist%s", AdminSecretName(cluster), KeyAdminPassword, help)
		}
	}
	if cookie == "" {
		cookie = fresh.ErlangCookie
	}
	if admin == "" {
		admin = fresh.AdminPassword
	}
	return Secrets{ErlangCookie: cookie, AdminPassword: admin}, ""
}

func value(s *corev1.Secret, key string) string {
	if s == nil {
		return ""
	}
	return string(s.Data[key])
}
