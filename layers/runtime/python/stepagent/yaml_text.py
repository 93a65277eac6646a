"""YAML as people write it in the catalog, read strictly."""

from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Refuses a name that stands twice in one mapping, where YAML's own loader takes the last one and says nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [(name.tag, name.value) for name, _ in node.value if isinstance(name, yaml.ScalarNode)]
        for place, name in enumerate(names):
            if name in names[:place]:
                mark = node.value[place][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{name[1]!r} stands here twice", mark)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """What a document holds.

    Raises:
        YAMLError: it is none, or says something twice; the message names the line.
    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
