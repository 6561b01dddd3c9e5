package desired

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	volumeData       = "data"
	volumeHome       = "home"
	volumeConfig     = "config"
	volumePlugins    = "plugins"
	volumeCookie     = "erlang-cookie"
	volumeTemporary  = "tmp"
	volumePodInfo    = "pod-info"
	annotationConfig = "rabbitmq.warren.dev/config"

	// revisions of the pod template that stay for a look back.
	revisionHistory = 5
)

func statefulSet(in Input) *appsv1.StatefulSet {
	c := in.Cluster
	replicas, history := in.nodes(), int32(revisionHistory)
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: meta(in, StatefulSetName(c.Name)),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: NodesServiceName(c.Name),
			Selector:    &metav1.LabelSelector{MatchLabels: SelectorLabels(c.Name)},
			// Nodes that boot one after the other cannot form a cluster again after all of them stopped.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			// Package gate decides when a pod may go.
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			RevisionHistoryLimit: &history,
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: whenDeleted(c),
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template:             podTemplate(in),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{dataClaim(in)},
		},
	}
	remember(in, set)
	return set
}

func dataClaim(in Input) corev1.PersistentVolumeClaim {
	template := templateOfSpec(in.Cluster)
	if in.Claims != nil {
		template = *in.Claims
	}
	claim := corev1.PersistentVolumeClaim{
		// No kind: nested objects lose theirs on the way through an informer, and would differ for ever.
		ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: claimLabels(in.Cluster)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: template.Size},
			},
		},
	}
	if class := template.ClassName; class != "" {
		claim.Spec.StorageClassName = &class
	}
	return claim
}

func volumes(in Input) []corev1.Volume {
	name := in.Cluster.Name
	ownerOnly := int32(0o400)
	return []corev1.Volume{
		{Name: volumeHome, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: volumeTemporary, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: volumeConfig, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: ConfigMapName(name)},
				Items:                []corev1.KeyToPath{{Key: keySizeHint, Path: keySizeHint}, {Key: keyConfig, Path: keyConfig}},
			}},
			{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: AdminSecretName(name)},
				Items:                []corev1.KeyToPath{{Key: keyDefaultUser, Path: "20-" + keyDefaultUser}},
			}},
		}}}},
		{Name: volumePlugins, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ConfigMapName(name)},
			Items:                []corev1.KeyToPath{{Key: keyPlugins, Path: keyPlugins}},
		}}},
		{Name: volumeCookie, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  CookieSecretName(name),
			DefaultMode: &ownerOnly,
		}}},
		{Name: volumePodInfo, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "annotations",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations"},
			}},
		}}},
	}
}
