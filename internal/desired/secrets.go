package desired

import (
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the Secrets. Those of the administrator's follow the service-binding convention.
const (
	KeyErlangCookie  = ".erlang.cookie"
	KeyAdminUser     = "username"
	KeyAdminPassword = "password"

	keyDefaultUser = "default_user.conf"
)

func cookieSecret(in Input) *corev1.Secret {
	return secret(keptMeta(in, CookieSecretName(in.Cluster.Name)), map[string]string{
		KeyErlangCookie: in.Secrets.ErlangCookie,
	})
}

func adminSecret(in Input) *corev1.Secret {
	host := fmt.Sprintf("%s.%s.svc", ClientServiceName(in.Cluster.Name), in.Cluster.Namespace)
	password := in.Secrets.AdminPassword
	return secret(keptMeta(in, AdminSecretName(in.Cluster.Name)), map[string]string{
		"type":              "rabbitmq",
		"provider":          "warren",
		"host":              host,
		"port":              strconv.Itoa(PortAMQP),
		"management-port":   strconv.Itoa(PortManagement),
		KeyAdminUser:        AdminUser,
		KeyAdminPassword:    password,
		"connection_string": fmt.Sprintf("amqp://%s@%s:%d/", url.UserPassword(AdminUser, password), host, PortAMQP),
		keyDefaultUser:      fmt.Sprintf("default_user = %s\ndefault_pass = %s\n", AdminUser, password),
	})
}

func secret(m metav1.ObjectMeta, text map[string]string) *corev1.Secret {
	data := make(map[string][]byte, len(text))
	for key, value := range text {
		data[key] = []byte(value)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: m,
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
}
