"""The name that programs know packed folders by."""

#: ``quant_method`` in config.json.
METHOD = "gbcompress"
